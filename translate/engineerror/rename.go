package engineerror

import "strings"

// RenameModel replaces the engine's name for a model in the message with the public name. It
// replaces whole names only. If the name could be an ordinary word, RenameModel replaces it only
// in quotes. It never replaces a name of one or two characters.
func (e *Error) RenameModel(served, public string) {
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
	e.Message = truncateMessage(b.String())
}

// looksLikeName requires letters and other characters. A name with only one of the two kinds could
// be a word or a number in a sentence.
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

// endsName reports whether the name ends between before and rest. A full stop or colon at the end
// of a sentence is not part of a name.
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
