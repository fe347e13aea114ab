package strictyaml

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sourceText is the text of a file, for excerpts.
type sourceText struct {
	name   string
	lines  []string
	hidden map[int]int // maps a line to the column at which a secret starts
}

func newSourceText(name string, text []byte) *sourceText {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = keyHashPattern.ReplaceAllStringFunc(strings.TrimSuffix(line, "\r"), maskHash)
	}
	return &sourceText{name: name, lines: lines, hidden: map[int]int{}}
}

// Maximum lengths in a Problem, in bytes. Messages quote names, and a name may be as long as the
// file, so a limit is needed.
const (
	maxMessageBytes = 1000
	maxPathBytes    = 300
)

func truncateText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}

// hide excludes text from all excerpts: a line from column on, and the following lines up to last.
// It may hide more than the secret.
func (s *sourceText) hide(line, column, last int) {
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

// excerptWidth is the maximum length of an excerpt's line in characters.
const excerptWidth = 120

// excerpt returns the source line with a caret under column. It replaces a tab by a space, and
// other control characters by a dot, so that the caret is in the correct column and the file cannot
// control the terminal.
func (s *sourceText) excerpt(line, column int) string {
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
	for _, r := range text { // the line may be as long as the file
		if at >= min(end, length) {
			break
		}
		if at++; at > start {
			window = append(window, excerptRune(r))
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

// keyHashPattern matches the hash of a key. Excerpts replace the hash by stars, but show the text
// after it.
var keyHashPattern = regexp.MustCompile(`sha256:[0-9A-Fa-f]+`)

func maskHash(hash string) string {
	const kept = len("sha256:")
	return hash[:kept] + strings.Repeat("*", len(hash)-kept)
}

// excerptRune returns the character that an excerpt shows for r.
func excerptRune(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsControl(r) || r == unicode.ReplacementChar:
		return '.'
	}
	return r
}

func (s *sourceText) addExcerpts(ps Problems) {
	for i := range ps {
		if ps[i].File == s.name && ps[i].Excerpt == "" {
			ps[i].Excerpt = s.excerpt(ps[i].Line, ps[i].Column)
		}
	}
}

// secretColumn returns the column at which a secret may start in a line, or 0. A line without a key
// may continue the value of the previous key. In that case, the previous key determines the result.
func (s *sourceText) secretColumn(line int) int {
	column, keyed := columnAfterSecretName(s.lines[line-1])
	for above := line - 1; !keyed && above >= 1; above-- {
		if column, keyed = columnAfterSecretName(s.lines[above-1]); column > 0 {
			return 1
		}
	}
	return column
}

// columnAfterSecretName returns the column after the first key in a line whose name suggests a
// secret, or 0 if the line contains no such key. It also reports whether the line contains any key.
func columnAfterSecretName(line string) (column int, keyed bool) {
	word, place := 0, 0 // word is the byte offset of the current word; place is the position of r, counted in characters
	for i, r := range line {
		place++
		switch r {
		case ':':
			value, _, _ := strings.Cut(strings.TrimSpace(line[i+1:]), " ")
			if keyed = true; isSecretName(line[word:i]) && !countsTokens(line[word:i], strings.TrimRight(value, ",}]")) {
				return place + 1, true
			}
			word = i + 1
		case ' ', '\t', ',', '{', '[', '-':
			word = i + 1
		}
	}
	return 0, keyed
}
