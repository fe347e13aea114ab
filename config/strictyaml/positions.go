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

// valuePosition is the position and path of a value in a source. If a list entry was appended from
// a second file, this path differs from the path in the bound struct.
type valuePosition struct {
	src          *sourceText
	path         string
	line, column int
	reference    string // text before ${VAR} was replaced; messages show it instead of the value
}

// quoteValue quotes the value at position m for a message. It truncates a long value.
func (m valuePosition) quoteValue(text string) string {
	if m.reference != "" {
		text = m.reference
	}
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "..."
	}
	return fmt.Sprintf("%q", text)
}

// newProblem returns a Problem without an excerpt. Once all secrets in the file are known,
// sourceText.addExcerpts adds the excerpt. The message may quote names from the file. Control
// characters in the message become spaces, so that the message stays on one line and cannot control
// a terminal.
func (m valuePosition) newProblem(message string) Problem {
	message = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message)
	p := Problem{Path: truncateText(m.path, maxPathBytes), Message: truncateText(message, maxMessageBytes), Line: m.line, Column: m.column}
	if m.src != nil {
		p.File = m.src.name
	}
	return p
}

// Positions records the position of each value under its path (upstreams[1].probe.fall), and
// whether the value could be read. A nil *Positions has no positions, and no value is broken.
type Positions struct {
	positions map[string]valuePosition
	broken    map[string]bool // values that could not be read; checks that depend on them are skipped
}

// SetFileName sets the name of the first source in later problems.
func (p *Positions) SetFileName(name string) { p.positions[""].src.name = name }

// nearest returns the position of the value at path. If that position is unknown, it returns the
// position of the nearest enclosing value that has one. If a top-level value is missing, the
// returned position has no line.
func (p *Positions) nearest(path string) valuePosition {
	if p == nil {
		return valuePosition{path: path}
	}
	for around := path; ; {
		if m, ok := p.positions[around]; ok {
			m.path += path[len(around):]
			return m
		}
		i := strings.LastIndexAny(around, ".[")
		if i < 0 {
			return valuePosition{src: p.positions[""].src, path: path}
		}
		around = around[:i]
	}
}

// ProblemAt returns a Problem with an excerpt for the value at path.
func (p *Positions) ProblemAt(path, message string) Problem {
	m := p.nearest(path)
	problem := m.newProblem(message)
	if m.src != nil {
		problem.Excerpt = m.src.excerpt(problem.Line, problem.Column)
	}
	return problem
}

// Paths returns the paths of all values, in no particular order.
func (p *Positions) Paths() iter.Seq[string] { return maps.Keys(p.positions) }

// HasValue reports whether the file contains a value at path.
func (p *Positions) HasValue(path string) bool {
	if p == nil {
		return false
	}
	_, ok := p.positions[path]
	return ok
}

// QuoteValue quotes a value for a message. For a variable, it shows the reference instead of the
// value.
func (p *Positions) QuoteValue(path, value string) string {
	if p == nil {
		return valuePosition{}.quoteValue(value)
	}
	return p.positions[path].quoteValue(value)
}

// DescribeLine describes the position of the value at path: "on line 7" or, if the value at from is
// in a different file, "on line 7 of keys.yaml".
func (p *Positions) DescribeLine(path, from string) string {
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
func (p *Positions) MarkBroken(path string) { p.broken[path] = true }

// IsBroken reports whether the value at path, or a value that contains it, could not be read.
func (p *Positions) IsBroken(path string) bool {
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

// IsOrContainsBroken reports whether the value at path, or a value within it, could not be read.
func (p *Positions) IsOrContainsBroken(path string) bool {
	return p.hasBrokenPath(path, func(rest string) bool { return rest == "" || rest[0] == '.' || rest[0] == '[' })
}

// HasUnknownNames reports whether some names in a list are unknown because a value could not be
// read. In that case, a reference to a name that seems not to exist may be correct. fields lists
// the fields that contain names.
func (p *Positions) HasUnknownNames(list string, fields ...string) bool {
	return p.hasBrokenPath(list, func(rest string) bool {
		_, member, inside := strings.Cut(rest, "].")
		named := func(field string) bool { return strings.HasPrefix(member, field) }
		return rest == "" || rest[0] == '[' && (!inside || slices.ContainsFunc(fields, named))
	})
}

// hasBrokenPath reports whether the path of any broken value starts with prefix and its remainder
// satisfies is.
func (p *Positions) hasBrokenPath(prefix string, is func(rest string) bool) bool {
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

// AppendEntries adds the positions and broken paths of list entries from a second file. These
// entries follow the first count entries of the list.
func (p *Positions) AppendEntries(list string, second *Positions, count int) {
	for path, m := range second.positions {
		if moved, ok := shiftEntryIndex(path, list, count); ok {
			p.positions[moved] = m
		}
	}
	for path := range second.broken {
		if moved, ok := shiftEntryIndex(path, list, count); ok {
			p.broken[moved] = true
		} else {
			p.broken[list] = true
		}
	}
	if len(second.positions) == 0 { // the second file has no tree
		p.broken[list] = true
	}
}

// shiftEntryIndex replaces list[i] with list[i+by] at the start of a path.
func shiftEntryIndex(path, list string, by int) (string, bool) {
	rest, ok := strings.CutPrefix(path, list+"[")
	if !ok || by == 0 {
		return path, ok
	}
	number, rest, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if err != nil {
		return path, true
	}
	return EntryPath(list, i+by) + rest, true
}

// EntryPath returns the path of a list entry.
func EntryPath(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
