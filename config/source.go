package config

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is the text of one file, kept to show the lines that problems are on.
type source struct {
	name   string
	lines  []string
	hidden map[int]int // line to the column from which on it holds a secret
}

func newSource(name string, text []byte) *source {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSuffix(line, "\r")
	}
	return &source{name: name, lines: lines, hidden: map[int]int{}}
}

// mark is a place in a source: where a value stands and how it is called there. The path differs from the one in File for
// the keys of a keys_file, which are appended to the main file's.
type mark struct {
	src          *source
	path         string
	line, column int
	raw          string // what the file says when a ${VAR} was replaced in it: messages show this, not the variable's value
}

// Bounds on what is told of a value, in bytes: messages quote names, which may be as long as the file.
const (
	maxMessage = 1000
	maxPath    = 300
)

// cut keeps the beginning of a text that is too long.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}

// problem makes a Problem without its excerpt, which is added by excerpts once all secrets of the file are known. Names in
// message may be what a file holds, so control characters become blanks: it is one line, and drives no terminal.
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

// hide keeps what stands at line and right of column, and the following lines up to last, out of every excerpt. It covers
// more than the secret when others follow on the line: showing too little is the safe side.
func (s *source) hide(line, column, last int) {
	for n := line; n <= last; n++ {
		from := 1
		if n == line {
			from = column
		}
		if old, ok := s.hidden[n]; !ok || from < old {
			s.hidden[n] = from
		}
	}
}

// excerptWidth bounds a shown line, in characters.
const excerptWidth = 120

// excerpt returns the source line with a caret under column. Tabs become one blank and other control characters a dot, so
// that the caret stands right and a file cannot drive the terminal that shows its problems.
func (s *source) excerpt(line, column int) string {
	if line < 1 || line > len(s.lines) {
		return ""
	}
	text, stars := s.lines[line-1], ""
	length := utf8.RuneCountInString(text)
	if from, ok := s.hidden[line]; ok && from <= length {
		stars = "******"
		length = from - 1
	}
	shown := length + len(stars)
	column = min(max(column, 1), shown+1)
	start := max(0, column-excerptWidth*3/4)
	end := min(shown, start+excerptWidth)
	before, after := "", ""
	if start > 0 {
		before = "..."
	}
	if end < shown {
		after = "..."
	}
	window := make([]rune, 0, excerptWidth)
	at := 0
	for _, r := range text { // which may be as long as the file
		if at >= min(end, length) {
			break
		}
		if at++; at > start {
			window = append(window, showable(r))
		}
	}
	for ; at < end; at++ {
		if at >= start {
			window = append(window, '*')
		}
	}
	caret := strings.Repeat(" ", len(before)+column-1-start) + "^"
	return fmt.Sprintf("%5d | %s%s%s\n      | %s", line, before, string(window), after, caret)
}

// showable is what stands for r in an excerpt.
func showable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsControl(r) || r == unicode.ReplacementChar:
		return '.'
	}
	return r
}

// excerpts fills in the excerpts of the problems that stand in s.
func (s *source) excerpts(ps Problems) {
	for i := range ps {
		if ps[i].File == s.name && ps[i].Excerpt == "" {
			ps[i].Excerpt = s.excerpt(ps[i].Line, ps[i].Column)
		}
	}
}
