package chat

import (
	"strings"

	"penstock/translate/jsonx"
)

// WordList is a list of words that are only hints, such as how hard a model thinks, how its
// reasoning is shown, or how closely it looks at an image. Vendors extend these lists, and their
// clients send the new words to every server. An unknown word is therefore read as the nearest
// known word, and the header x-penstock-dropped tells the client. A strict edge refuses an unknown
// word. Words that decide the format or the meaning of an answer, such as roles, tool choices,
// types and formats, are never replaced.
type WordList struct {
	Words []string
	Other string // replaces a word that resembles no word in the list
}

// Read returns the list's word for the string v, and whether v is exactly that word.
func (l *WordList) Read(v jsonx.Value) (word string, known bool) {
	for _, w := range l.Words {
		if v.EqualText(w) {
			return w, true
		}
	}
	plain := plainWord(string(v.AppendText(nil)))
	for _, w := range l.Words {
		if plainWord(w) == plain {
			return w, false
		}
	}
	return l.Other, false
}

// plainWord returns a word in lower case, without separators: X-High becomes xhigh.
func plainWord(w string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(w))
}

// Hints returns the names, from a fixed set, of the members whose words were unknown; nil: none.
func (r *Request) Hints() (names []string) {
	if r.Reasoning.unknown {
		names = append(names, "member:effort")
	}
	if r.Prompt.unknownDetail() != nil {
		names = append(names, "member:detail")
	}
	return names
}
