package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a configuration, with its position and its remedy. No field ever
// contains a secret, because an excerpt ends before a secret.
type Problem struct {
	File    string // the name of the file, as given to Read
	Path    string // the value, such as upstreams[1].probe.fall; empty: the whole file
	Message string // the mistake and its remedy, in one line
	Excerpt string // the source line with a caret below it; empty if there is no line
	Line    int    // counted from 1; 0: no line
	Column  int    // in characters, counted from 1; 0: no column
	Warning bool   // the file is usable nevertheless
}

// String returns "file:line:column: message (path)" and, below it, the excerpt. It does not end in
// a newline.
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

// MaxProblems is the maximum number of errors, and also of warnings, that are reported for one
// file. A file with more problems is evidently the wrong file.
const MaxProblems = 100

// Findings collects problems, up to MaxProblems errors and as many warnings.
type Findings struct {
	problems         Problems
	errors, warnings int // number of problems found, including discarded ones
}

// Add keeps a problem unless MaxProblems of its kind have been found before.
func (f *Findings) Add(p Problem) {
	if f.Wants(p) {
		f.problems = append(f.problems, p)
	}
	*f.count(p)++
}

// Wants reports whether Add would keep a problem of p's kind.
func (f *Findings) Wants(p Problem) bool { return *f.count(p) < MaxProblems }

func (f *Findings) count(p Problem) *int {
	if p.Warning {
		return &f.warnings
	}
	return &f.errors
}

// Keep adds earlier problems without a limit.
func (f *Findings) Keep(ps Problems) { f.problems = append(f.problems, ps...) }

// Full reports whether enough errors were found to stop looking.
func (f *Findings) Full() bool { return f.errors >= MaxProblems }

// Problems returns the problems found, ordered by position.
func (f *Findings) Problems() Problems {
	f.problems.Sort()
	return f.problems
}

// Problems holds all problems that one run found, ordered by file and position. As an error it
// prints all of them.
type Problems []Problem

// Error returns all problems, one below the other.
func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i, p := range ps {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}

// Err returns ps as an error if it contains more than warnings, and nil otherwise. Use Err to
// convert Problems to an error, because a nil Problems in an error variable is not a nil error.
func (ps Problems) Err() error {
	if len(ps.Errors()) == 0 {
		return nil
	}
	return ps
}

// Errors returns the problems that make the file unusable.
func (ps Problems) Errors() Problems { return ps.only(false) }

// Warnings returns the problems with which the file is still usable.
func (ps Problems) Warnings() Problems { return ps.only(true) }

func (ps Problems) only(warning bool) Problems {
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
