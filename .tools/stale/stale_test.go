package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testModule returns a module whose package front has the comment, and whose README.md has the page.
func testModule(t *testing.T, comment, page string) *module {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26.0\n",
		"queue/queue.go": `package queue
type Queue struct { base; Limit Limit }
type base struct { Len int }
func (*base) Push() {}
type Limit struct { Slots int }
type Alias = Queue
type List interface { Walk() }
func New() *Queue { return nil }
func leaveQueue() {}`,
		"front/front.go": `package front
import ("os"; "strings"; q "small/queue")
type Server struct { queue *q.Queue; List; Files os.File }
type List = q.List
type Reader struct { strings.Reader }
func (s *Server) Serve(part q.Limit) { _ = part.Slots; _ = "jsonMember Prometheus" }
` + comment + "\nfunc last() {}",
		"front/README.md": page,
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := readModule(root)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestComments checks which words of a comment are reported.
func TestComments(t *testing.T) {
	for comment, want := range map[string]string{
		"// see queue.New, q.New and queue.Alias":                "",
		"// see queue.Old and q.Old":                             "queue.Old q.Old",
		"// see queue.Queue.Push, queue.Queue.Len":               "",
		"// see queue.Queue.Pop":                                 "queue.Queue.Pop",
		"// see queue.Alias.Push and queue.List.Walk":            "",
		"// see queue.Alias.Pop and queue.List.Run":              "queue.Alias.Pop queue.List.Run",
		"// see Server.Serve, Server.queue and Server.Walk":      "",
		"// see Server.Stop, Server.list":                        "Server.Stop Server.list",
		"// a type of another package: Queue.Push, Queue.Pop":    "Queue.Pop",
		"// of another module: os.Nothing, Reader.Anything":      "",
		"// part.Slots and Files.Anything are members":           "",
		"// queue.Slots is a member, queue.Gone is not":          "queue.Gone",
		"// admin.listen and queue.timeout are settings":         "",
		"// front.go, not back.go or queue/queue.go":             "back.go",
		"// [Server], [Server.Serve] and [queue.Queue]":          "",
		"// [Servant] and [Server.Servant]":                      "[Servant] Server.Servant",
		"// calls leaveQueue of package queue":                   "",
		"// calls leaveQueue":                                    "leaveQueue",
		"// calls NewServer, not jsonMember":                     "NewServer",
		"// until Retire returns. Retire is a Server of Linux":   "Retire Linux",
		"// for Prometheus and JavaScript, with two Servers":     "",
		"// says \"see Server.Stop and leaveQueue\"":             "",
		"//	leaveQueue(Retire)":                                  "",
		"//go:generate Server.Stop":                              "",
		"// a comment that ends with\n// Retire is one sentence": "Retire",
		"// A comment ends.\n// Retire begins the next one":      "",
	} {
		var got []string
		for _, finding := range testModule(t, comment+"\nvar _ = 0", "").check() {
			got = append(got, strings.Fields(finding)[1])
		}
		wanted := strings.Fields(want)
		slices.Sort(wanted)
		slices.Sort(got)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s: %q, want %q", comment, got, wanted)
		}
	}
}

// TestFirstWord checks which first words of a doc comment are reported.
func TestFirstWord(t *testing.T) {
	for comment, want := range map[string]string{
		"// last returns nothing.":      "",
		"// Server returns nothing.":    "",
		"// Final returns nothing.":     "front/front.go:7: last is documented as Final",
		"// Finals are no identifiers.": "",
		"// Only calls may do this.":    "",
		"// vLLM has a function.":       "",
	} {
		if got := strings.Join(testModule(t, comment, "").check(), "; "); got != want {
			t.Errorf("%s: %q, want %q", comment, got, want)
		}
	}
}

// TestPages checks that references in Markdown files are reported.
func TestPages(t *testing.T) {
	m := testModule(t, "", "# Front\n`queue.New` and `Server.Serve`, [Name](page.md)\n`queue.Old` and `Server.Stop`")
	want := []string{"front/README.md:3: Server.Stop does not exist", "front/README.md:3: queue.Old does not exist"}
	if got := m.check(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
