package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

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

// keysLine begins a list of keys in block form; an empty list may be written behind it.
var keysLine = regexp.MustCompile(`^keys:[ \t]*(\[[ \t]*\][ \t]*)?(#.*)?$`)

// AppendKey returns the text of a keys_file, or of a configuration, with another key at the end of
// its keys. lines are those of the key, which begin with "  - ". Nothing else of the text changes.
// An empty text becomes a keys_file.
func AppendKey(src []byte, lines string) ([]byte, error) {
	text := strings.Split(strings.TrimSuffix(string(src), "\n"), "\n")
	content := func(line string) bool {
		return strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#")
	}
	head := slices.IndexFunc(text, keysLine.MatchString)
	first := slices.IndexFunc(text, content)
	at, indent := len(text), "  "
	switch {
	case head >= 0:
		text[head] = keysLine.ReplaceAllString(text[head], "keys: $2")
		text[head] = strings.TrimRight(text[head], " ")
		at = head + 1
		for i := at; i < len(text); i++ {
			if !content(text[i]) {
				continue
			}
			if text[i][0] != ' ' && text[i][0] != '-' {
				break
			}
			if at == head+1 {
				indent = text[i][:len(text[i])-len(strings.TrimLeft(text[i], " "))]
			}
			at = i + 1
		}
	case first >= 0 && strings.HasPrefix(text[first], "-"): // a bare list
		indent = ""
	default:
		lines = "keys:\n" + lines
	}
	lines = strings.TrimSuffix(lines, "\n")
	if indent != "  " {
		lines = strings.ReplaceAll("\n"+lines, "\n  ", "\n"+indent)[1:]
	}
	if len(src) == 0 {
		text, at = nil, 0
	}
	out := []byte(strings.Join(slices.Insert(text, at, lines), "\n") + "\n")
	return out, onlyAppended(src, out)
}

// onlyAppended checks that a text has the keys of an older one and one more, which has an id of its
// own.
func onlyAppended(before, after []byte) error {
	var older, newer keysFile
	strictyaml.Read("", before, &older, "")
	strictyaml.Read("", after, &newer, "")
	n := len(older.Keys)
	if len(newer.Keys) != n+1 || n > 0 && !reflect.DeepEqual(older.Keys, newer.Keys[:n]) {
		return errors.New("its keys are not a list with lines of its own for each, to which a key can be " +
			"appended: paste the lines of one that is made without --append")
	}
	if id := newer.Keys[n].ID; slices.ContainsFunc(older.Keys, func(k Key) bool { return k.ID == id }) {
		return fmt.Errorf("it has a key of the name %q already", id)
	}
	return nil
}
