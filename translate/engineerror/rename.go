package engineerror

import "strings"

// Rename replaces the engine's name for a model with the public name in the engine's message, so
// that clients see only names that they can use. It replaces only whole names, not parts of a
// longer name. A name that could be an ordinary word is replaced only in quotes, and a name of one
// or two letters is never replaced.
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

// looksLikeName reports whether a model's name is unlikely to be a word or a number in a sentence,
// because it has both letters and other characters.
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

// endsName reports whether the name between the byte before and the text rest is complete. A full
// stop or colon that ends a sentence or a clause is not part of the name.
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
