// Package documents tests the documents of the repository. Every block of code is marked "run" or
// "show" in its info string, after the language. TestRun runs the "run" blocks as they are printed.
// TestShow parses the "show" blocks for which there is a parser. Other tests check that links
// resolve and that generated pages match the code.
package documents

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repoRoot is the path from this package to the top of the repository.
const repoRoot = "../../.."

type block struct {
	doc    string // the document's path from the top
	line   int    // line number of the block's first line
	lang   string
	marker string // either run or show
	text   string
}

// documents returns the paths of all documents, relative to the top of the repository.
func documents(t *testing.T) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(repoRoot, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules"}, d.Name()) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(path), repoRoot+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, doc string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repoRoot, doc))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func blocksOf(t *testing.T, doc string) (blocks []block) {
	t.Helper()
	var open *block
	number := 0
	for line := range strings.Lines(read(t, doc)) {
		number++
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			lang, marker, _ := strings.Cut(info, " ")
			open = &block{doc: doc, line: number + 1, lang: lang, marker: marker}
		case fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", doc, open.line)
	}
	return blocks
}

// TestMarked checks that every block has a language and is marked run or show.
func TestMarked(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		for _, b := range blocksOf(t, doc) {
			if b.lang == "" || b.marker != "run" && b.marker != "show" {
				t.Errorf("%s:%d: the info string %q has to be a language and \"run\" or \"show\"", doc, b.line-1, b.lang+" "+b.marker)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noCode  = regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	noSlug  = regexp.MustCompile("[^a-z0-9 _-]")
)

// anchors returns the anchors of a document, as the hosting site derives them from headings.
func anchors(t *testing.T, doc string) (names []string) {
	t.Helper()
	for _, m := range heading.FindAllStringSubmatch(read(t, doc), -1) {
		names = append(names, strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return names
}

// TestLinks checks that every link within the repository leads to an existing file and, if it has
// an anchor, to a heading.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(noCode.ReplaceAllString(read(t, doc), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			to := filepath.ToSlash(filepath.Join(filepath.Dir(doc), path))
			if path == "" {
				to = doc
			}
			if _, err := os.Stat(filepath.Join(repoRoot, to)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", doc, m[1])
			} else if anchor != "" && !slices.Contains(anchors(t, to), anchor) {
				t.Errorf("%s: the link to %s: there is no such heading", doc, m[1])
			}
		}
	}
}
