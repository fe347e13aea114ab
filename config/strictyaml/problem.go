package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is a mistake in a configuration, with its position and remedy. It contains no secrets.
type Problem struct {
	File    string // name of the file, as passed to Read
	Path    string // path of the value, such as upstreams[1].probe.fall; empty for the whole file
	Message string // the mistake and its remedy, on one line
	Excerpt string // the source line with a caret below it, or empty
	Line    int    // counting from 1; 0 if there is no line
	Column  int    // in characters, counting from 1; 0 if there is no column
	Warning bool   // the file can still be used
}

// String returns "file:line:column: message (path)", followed by the excerpt. It does not end in a
// newline.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Message)
	if p.Path != "" {
		fmt.Fprintf(&b, " (%s)", p.Path)
	}
	if p.Excerpt != "" {
		b.WriteByte('\n')
		b.WriteString(p.Excerpt)
	}
	return b.String()
}

// MaxProblems is the maximum number of errors, and of warnings, reported per file. A file with more
// problems is probably the wrong file.
const MaxProblems = 100

// Findings collects up to MaxProblems errors and as many warnings.
type Findings struct {
	problems         Problems
	errors, warnings int // numbers of errors and warnings, including discarded ones
}

// Add adds a problem. If there are already MaxProblems problems of its kind, Add discards p.
func (f *Findings) Add(p Problem) {
	if f.HasRoomFor(p) {
		f.problems = append(f.problems, p)
	}
	*f.counterFor(p)++
}

// HasRoomFor reports whether Add would keep p rather than discard it.
func (f *Findings) HasRoomFor(p Problem) bool { return *f.counterFor(p) < MaxProblems }

func (f *Findings) counterFor(p Problem) *int {
	if p.Warning {
		return &f.warnings
	}
	return &f.errors
}

// AddAll adds problems without applying the limit.
func (f *Findings) AddAll(ps Problems) { f.problems = append(f.problems, ps...) }

// IsFull reports whether there are so many errors that the caller should stop checking.
func (f *Findings) IsFull() bool { return f.errors >= MaxProblems }

// Problems returns the problems in order of position.
func (f *Findings) Problems() Problems {
	f.problems.Sort()
	return f.problems
}

// Problems contains all problems found in one run, ordered by file and position. As an error, it
// prints all of them.
type Problems []Problem

// Error returns all problems, separated by newlines.
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// Err returns ps as an error if it contains any error, and nil otherwise. Use it to convert
// Problems to an error, because an error that contains a nil Problems is not a nil error.
func (ps Problems) Err() error {
	if len(ps.Errors()) == 0 {
		return nil
	}
	return ps
}

// Errors returns the problems that make the file unusable.
func (ps Problems) Errors() Problems { return ps.filter(false) }

// Warnings returns the problems that leave the file usable.
func (ps Problems) Warnings() Problems { return ps.filter(true) }

func (ps Problems) filter(warning bool) Problems {
	var out Problems
	for _, p := range ps {
		if p.Warning == warning {
			out = append(out, p)
		}
	}
	return out
}

// Sort orders ps by position, so that the output does not depend on the order of the checks.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
