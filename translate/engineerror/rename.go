package engineerror

import "strings"

// Rename puts the public name of a model in the place of its engine's own in what the engine says,
// so that no client hears of a name that it cannot use. Only the whole name counts, not one within
// a longer name. One that might be an ordinary word counts in quotes alone, and one of a letter or
// two never.
func (e *Error) Rename(served, public string) {
	if len(served) < 3 || served == public || !strings.Contains(e.Message, served) {
		return
	}
	word := !looksLikeName(served)
	var b strings.Builder
	for s, before := e.Message, byte(' '); ; {
		i := strings.Index(s, served)
		if i < 0 {
			b.WriteString(s)
			break
		}
		if i > 0 {
			before = s[i-1]
		}
		rest := s[i+len(served):]
		b.WriteString(s[:i])
		if whole := endsName(before, rest); whole && (!word || isQuote(before) && rest != "" && isQuote(rest[0])) {
			b.WriteString(public)
		} else {
			b.WriteString(served)
		}
		s, before = rest, served[len(served)-1]
	}
	e.Message = cutMessage(b.String())
}

// looksLikeName reports whether a model's name is hardly a word or a number of a sentence: it has
// letters, and something beside them.
func looksLikeName(s string) bool {
	letter, other := false, false
	for i := range len(s) {
		if c := s[i]; 'a' <= c|0x20 && c|0x20 <= 'z' {
			letter = true
		} else {
			other = true
		}
	}
	return letter && other
}

// endsName reports whether a name between before and rest is a whole one. The stop or colon behind
// which a sentence or a line goes on is no part of it.
func endsName(before byte, rest string) bool {
	if isNameByte(before) {
		return false
	}
	rest = strings.TrimLeft(rest, ".:")
	return rest == "" || !isNameByte(rest[0])
}

func isNameByte(c byte) bool {
	return isNameLetter(c) || strings.IndexByte("-_./:@+", c) >= 0
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
