package config

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// keysFile is the form of the second file. A bare list is accepted, too.
type keysFile struct {
	Keys []Key `yaml:"keys"`
}

func (k *keysFile) bindNode(b *binder, n ast.Node, path string, depth int) {
	if _, bare := n.(*ast.SequenceNode); bare {
		b.list(n, reflect.ValueOf(&k.Keys).Elem(), "keys", depth)
		return
	}
	b.fields(n, reflect.ValueOf(k).Elem(), path, depth)
}

// readKeys appends the keys of the keys_file to f. Its problems stand in that file's own lines.
func (f *File) readKeys(main *binder) Problems {
	main.files = append(main.files, f.KeysFile)
	src, err := readRegular(f.KeysFile, maxFile)
	if err != nil {
		main.broken["keys_file"] = true
		p := Problems{main.marks["keys_file"].problem(err.Error())}
		main.src.excerpts(p)
		return p
	}
	var second keysFile
	b, ok := read(f.KeysFile, src, &second, "list the keys as in the main file, or write [] when there are to be none")
	main.files = append(main.files, b.files...)
	main.adopt(b, len(f.Keys))
	f.Keys = append(f.Keys, second.Keys...)
	problems := b.finish()
	switch {
	case !ok || len(problems) > 0 || len(second.Keys) > 0:
	case second.Keys == nil: // as half a file would look
		main.broken["keys"] = true
		problems = append(problems, Problem{File: f.KeysFile, Path: "keys", Message: "the file lists no keys: write keys: [] when there are to be none"})
	default:
		f.origin.keyless = true
	}
	if info, err := os.Stat(f.KeysFile); ok && err == nil {
		problems = append(problems, wideMode(f.KeysFile, info)...)
	}
	return problems
}

// adopt takes over where the keys of a second file stand, and what is wrong with them.
func (b *binder) adopt(second *binder, shift int) {
	for path, m := range second.marks {
		if strings.HasPrefix(path, "keys[") {
			b.marks[shiftKeys(path, shift)] = m
		}
	}
	for path := range second.broken {
		if strings.HasPrefix(path, "keys[") {
			b.broken[shiftKeys(path, shift)] = true
		} else {
			b.broken["keys"] = true
		}
	}
	if len(second.marks) == 0 { // there was no tree
		b.broken["keys"] = true
	}
}

// shiftKeys turns keys[i] into keys[i+by] at the start of a path.
func shiftKeys(path string, by int) string {
	rest, ok := strings.CutPrefix(path, "keys[")
	if !ok {
		return path
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil {
		return path
	}
	return "keys[" + strconv.Itoa(i+by) + "]" + rest
}

// tooOpen reports whether more than a file's owner and group can read it.
func tooOpen(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&^0o640 != 0
}

// wideMode warns when a file that holds keys can be read by more than its owner and group.
func wideMode(path string, info os.FileInfo) Problems {
	if !tooOpen(info) {
		return nil
	}
	return Problems{{
		File: path, Warning: true,
		Message: fmt.Sprintf("the file holds keys and has mode %04o: chmod 640 keeps other users out", info.Mode().Perm()),
	}}
}
