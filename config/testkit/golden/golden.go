// Package golden compares test results with committed files. With -update, it rewrites the files.
// It imports no other package of this module, so tests in any package can use it.
package golden

import (
	"bytes"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write golden and generated files anew")

// IsUpdating reports whether -update is set. Use it for files that CompareFile cannot compare.
func IsUpdating() bool { return *update }

// CompareFile fails the test if the contents of the file differ from got. The file's folder must
// exist.
func CompareFile(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got); go test -run '^%s$' -update writes it anew\n%s", name,
			strings.ReplaceAll(t.Name(), "/", "$/^"), d)
	}
}

// RunArchives runs f in a subtest for each archive in a folder. f reads the input sections and sets
// the output sections. The resulting archive must equal the file.
func RunArchives(t *testing.T, folder string, f func(t *testing.T, a *Archive)) {
	t.Helper()
	for name, a := range ReadArchives(t, folder) {
		file, err := filepath.Abs(filepath.Join(folder, name+".txtar")) // f may change the working directory
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			f(t, a)
			CompareFile(t, file, txtar.Format(&a.Archive))
		})
	}
}

// ReadArchives returns the archives in a folder, ordered by name. The name of an archive is its
// file name without the extension.
func ReadArchives(t testing.TB, folder string) iter.Seq2[string, *Archive] {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives in %s: %v", folder, err)
	}
	return func(yield func(string, *Archive) bool) {
		for _, file := range files {
			if !yield(strings.TrimSuffix(filepath.Base(file), ".txtar"), ReadArchive(t, file)) {
				return
			}
		}
	}
}

// ReadArchive reads one archive.
func ReadArchive(t testing.TB, file string) *Archive {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return &Archive{*a}
}

// Archive contains the sections of one test case.
type Archive struct{ txtar.Archive }

// Section returns the text of a section, or nil.
func (a *Archive) Section(name string) []byte {
	if i := a.sectionIndex(name); i >= 0 {
		return a.Files[i].Data
	}
	return nil
}

// SetSection sets the text of a section and ends the text with a newline. If there is no such
// section, SetSection appends one. If text is nil, SetSection removes the section.
func (a *Archive) SetSection(name string, text []byte) {
	i := a.sectionIndex(name)
	switch {
	case text == nil && i >= 0:
		a.Files = slices.Delete(a.Files, i, i+1)
		return
	case text == nil:
		return
	case i < 0:
		a.Files = append(a.Files, txtar.File{Name: name})
		i = len(a.Files) - 1
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(bytes.Clone(text), '\n')
	}
	a.Files[i].Data = text
}

// HasCommentLine reports whether a line of the archive's comment equals word.
func (a *Archive) HasCommentLine(word string) bool {
	return slices.Contains(strings.Split(string(a.Comment), "\n"), word)
}

func (a *Archive) sectionIndex(name string) int {
	return slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
}
