package config

import (
	"fmt"
	"os"

	"penstock/config/strictyaml"
)

// keysFile is the form of the second file. A bare list is accepted, too.
type keysFile struct {
	Keys []Key `yaml:"keys"`
}

// BindNode accepts a list, or a mapping with keys.
func (k *keysFile) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsList() {
		b.List(n.In("keys"), &k.Keys)
		return
	}
	b.Fields(n, k)
}

// readKeys appends the keys of the keys_file to f. Its problems stand in that file's own lines.
func (f *File) readKeys() Problems {
	at := f.origin
	at.files = append(at.files, f.KeysFile)
	src, err := strictyaml.ReadRegular(f.KeysFile, strictyaml.MaxFile)
	if err != nil {
		p := at.places.ProblemAt("keys_file", err.Error())
		at.places.MarkBroken("keys_file")
		return Problems{p}
	}
	at.content.Write(src)
	var second keysFile
	d := strictyaml.Read(f.KeysFile, src, &second,
		"list the keys as in the main file, or write [] when there are to be none")
	at.files = append(at.files, d.Files...)
	at.places.Append("keys", d.Places, len(f.Keys))
	f.Keys = append(f.Keys, second.Keys...)
	problems := d.Problems()
	switch {
	case !d.HasContent || len(problems) > 0 || len(second.Keys) > 0:
	case second.Keys == nil: // as half a file would look
		at.places.MarkBroken("keys")
		problems = append(problems, Problem{
			File: f.KeysFile, Path: "keys",
			Message: "the file lists no keys: write keys: [] when there are to be none",
		})
	default:
		at.keyless = true
	}
	if info, err := os.Stat(f.KeysFile); d.HasContent && err == nil {
		problems = append(problems, openToOthers(f.KeysFile, info)...)
	}
	return problems
}

// openToOthers warns when a file that holds keys can be read by more than its owner and group.
func openToOthers(path string, info os.FileInfo) Problems {
	if !strictyaml.TooOpen(info) {
		return nil
	}
	return Problems{{
		File: path, Warning: true,
		Message: fmt.Sprintf("the file holds keys and has mode %04o: chmod 640 keeps other users out", info.Mode().Perm()),
	}}
}
