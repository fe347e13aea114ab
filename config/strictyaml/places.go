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

// mark is a place in a source: where a value stands and how it is called there. The path differs
// from the one in the bound struct for entries that a second file appends to a list.
type mark struct {
	src          *source
	path         string
	line, column int
	raw          string // the text of a value in which a ${VAR} was replaced: messages show this, not the variable's value
}

// show quotes the value that stands at m for a message, bounded.
func (m mark) show(text string) string {
	if m.raw != "" {
		text = m.raw
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "..."
	}
	return fmt.Sprintf("%q", text)
}

// problem makes a Problem without its excerpt, which is added by excerpts once all secrets of the
// file are known. Names in message may be what a file holds, so control characters become blanks:
// it is one line, and drives no terminal.
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

// Places knows by the path of a value, such as upstreams[1].probe.fall, where it stands and whether
// it could be read. A nil Places is that of values that were made by hand: none has a place, all
// were read.
type Places struct {
	marks  map[string]mark
	broken map[string]bool // reported while reading: checks that depend on them are skipped
}

// Rename has the first source stand under another name in problems that are found from now on.
func (p *Places) Rename(name string) { p.marks[""].src.name = name }

// nearest returns the mark of path, or of the nearest thing around it that stands somewhere. What
// is missing from the file as a whole has no line.
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

// ProblemAt makes a Problem with its excerpt of what is wrong with the value at path.
func (p *Places) ProblemAt(path, message string) Problem {
	m := p.nearest(path)
	problem := m.problem(message)
	if m.src != nil {
		problem.Excerpt = m.src.excerpt(problem.Line, problem.Column)
	}
	return problem
}

// Paths goes through the values that the file has, in no order.
func (p *Places) Paths() iter.Seq[string] { return maps.Keys(p.marks) }

// Has reports whether the file has a value at path.
func (p *Places) Has(path string) bool {
	if p == nil {
		return false
	}
	_, ok := p.marks[path]
	return ok
}

// Show quotes a value of the file for a message; what a variable held is shown as the variable.
func (p *Places) Show(path, value string) string {
	if p == nil {
		return mark{}.show(value)
	}
	return p.marks[path].show(value)
}

// Line says where the value at path stands, as seen from another one: "on line 7", "on line 7 of
// keys.yaml".
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

// MarkBroken notes that the value at path could not be read.
func (p *Places) MarkBroken(path string) { p.broken[path] = true }

// Broken reports whether the value at path, or one around it, could not be read.
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

// BrokenWithin reports whether the value at path, or one in it, could not be read.
func (p *Places) BrokenWithin(path string) bool {
	return p.anyBroken(path, func(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' })
}

// NamesBroken reports whether the names in a list cannot be relied on, because one of them was not
// read: a reference that leads nowhere may then be right. The names are in fields of the list's
// entries.
func (p *Places) NamesBroken(list string, fields ...string) bool {
	return p.anyBroken(list, func(rest string) bool {
		_, member, inside := strings.Cut(rest, "].")
		named := func(field string) bool { return strings.HasPrefix(member, field) }
		return rest == "" || rest[0] == '[' && (!inside || slices.ContainsFunc(fields, named))
	})
}

// anyBroken reports whether is holds for the rest of a broken path that begins with prefix.
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

// Append takes over where the entries of a list in a second file stand, and what of them could not
// be read. They follow the first count entries of p's own list.
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
	if len(second.marks) == 0 { // there was no tree
		p.broken[list] = true
	}
}

// moveEntry turns list[i] into list[i+by] at the beginning of a path.
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

// Entry is the path of an entry of a list.
func Entry(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
