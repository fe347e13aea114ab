package strictyaml

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// mark is the position and path of a value in a source. If a second file appends entries to a list,
// their paths there differ from those in the bound struct.
type mark struct {
	src          *source
	path         string
	line, column int
	raw          string // the text before a ${VAR} was replaced; messages show it instead of the value
}

// show quotes the value at m for a message, cut to a maximum length.
func (m mark) show(text string) string {
	if m.raw != "" {
		text = m.raw
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "..."
	}
	return fmt.Sprintf("%q", text)
}

// problem makes a Problem without its excerpt. The excerpt is added later (source.excerpts), once
// all secrets in the file are known. The message may quote names from the file, so control
// characters are replaced by blanks. Thus the message stays on one line and cannot control a
// terminal.
func (m mark) problem(message string) Problem {
	message = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
	p := Problem{Path: cut(m.path, maxPath), Message: cut(message, maxMessage), Line: m.line, Column: m.column}
	if m.src != nil {
		p.File = m.src.name
	}
	return p
}

// Places records, by path (upstreams[1].probe.fall), each value's position and whether the value
// could be read. A nil Places is for values that are not from a file. They have no positions, and
// all count as read.
type Places struct {
	marks  map[string]mark
	broken map[string]bool // values reported while reading: checks that depend on them are skipped
}

// Rename sets the name of the first source in later problems.
func (p *Places) Rename(name string) { p.marks[""].src.name = name }

// nearest returns the mark of path, or of the nearest enclosing value that has one. A missing value
// at the top level has no line.
func (p *Places) nearest(path string) mark {
	if p == nil {
		return mark{path: path}
	}
	for around := path; ; {
		if m, ok := p.marks[around]; ok {
			m.path += path[len(around):]
			return m
		}
		i := strings.LastIndexAny(around, ".[")
		if i < 0 {
			return mark{src: p.marks[""].src, path: path}
		}
		around = around[:i]
	}
}

// ProblemAt makes a Problem, with its excerpt, for the value at path.
func (p *Places) ProblemAt(path, message string) Problem {
	m := p.nearest(path)
	problem := m.problem(message)
	if m.src != nil {
		problem.Excerpt = m.src.excerpt(problem.Line, problem.Column)
	}
	return problem
}

// Paths yields the paths of the file's values in no particular order.
func (p *Places) Paths() iter.Seq[string] { return maps.Keys(p.marks) }

// Has reports whether the file has a value at path.
func (p *Places) Has(path string) bool {
	if p == nil {
		return false
	}
	_, ok := p.marks[path]
	return ok
}

// Show quotes a value of the file for a message. A variable's value is shown as the variable.
func (p *Places) Show(path, value string) string {
	if p == nil {
		return mark{}.show(value)
	}
	return p.marks[path].show(value)
}

// Line describes the position of the value at path relative to another value: "on line 7", "on line
// 7 of keys.yaml".
func (p *Places) Line(path, from string) string {
	m, here := p.nearest(path), p.nearest(from)
	switch {
	case m.line == 0:
		return "at " + path
	case m.src != here.src:
		return fmt.Sprintf("on line %d of %s", m.line, m.src.name)
	}
	return fmt.Sprintf("on line %d", m.line)
}

// MarkBroken records that the value at path could not be read.
func (p *Places) MarkBroken(path string) { p.broken[path] = true }

// Broken reports whether the value at path, or a value that contains it, could not be read.
func (p *Places) Broken(path string) bool {
	if p == nil {
		return false
	}
	for {
		if p.broken[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return p.broken[""]
		}
		path = path[:i]
	}
}

// BrokenWithin reports whether the value at path, or a value within it, could not be read.
func (p *Places) BrokenWithin(path string) bool {
	return p.anyBroken(path, func(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' })
}

// NamesBroken reports whether a list's names are incomplete because one could not be read. A
// reference to an unknown name may then be right. fields are the fields of the list's entries that
// contain names.
func (p *Places) NamesBroken(list string, fields ...string) bool {
	return p.anyBroken(list, func(rest string) bool {
		_, member, inside := strings.Cut(rest, "].")
		named := func(field string) bool { return strings.HasPrefix(member, field) }
		return rest == "" || rest[0] == '[' && (!inside || slices.ContainsFunc(fields, named))
	})
}

// anyBroken reports whether there is a broken path that starts with prefix and whose remainder
// satisfies is.
func (p *Places) anyBroken(prefix string, is func(rest string) bool) bool {
	if p == nil {
		return false
	}
	for path := range p.broken {
		if rest, ok := strings.CutPrefix(path, prefix); ok && is(rest) {
			return true
		}
	}
	return false
}

// Append adds the positions and broken marks of list entries from a second file. The entries follow
// the first count entries of the list in p.
func (p *Places) Append(list string, second *Places, count int) {
	for path, m := range second.marks {
		if moved, ok := moveEntry(path, list, count); ok {
			p.marks[moved] = m
		}
	}
	for path := range second.broken {
		if moved, ok := moveEntry(path, list, count); ok {
			p.broken[moved] = true
		} else {
			p.broken[list] = true
		}
	}
	if len(second.marks) == 0 { // the second file has no tree
		p.broken[list] = true
	}
}

// moveEntry replaces list[i] by list[i+by] at the start of a path.
func moveEntry(path, list string, by int) (string, bool) {
	rest, ok := strings.CutPrefix(path, list+"[")
	if !ok || by == 0 {
		return path, ok
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil {
		return path, true
	}
	return Entry(list, i+by) + rest, true
}

// Entry returns the path of a list entry.
func Entry(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
