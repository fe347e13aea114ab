package chat

import (
	"strings"

	"penstock/translate/jsonx"
)

// HintWordList is a list of values that are only hints, such as a reasoning effort or an image's
// detail. Vendors extend these lists, and their clients send the new words to every server. The
// edge replaces an unknown word with the nearest known word and reports this in the header
// x-penstock-dropped. A strict edge rejects unknown words. The edge never replaces words that
// change an answer's format or meaning, such as roles and types.
type HintWordList struct {
	Words []string
	Other string // replaces a word that does not resemble any word in the list
}

// NearestWord returns the word of the list that is nearest to v, and whether v is exactly this
// word.
func (l *HintWordList) NearestWord(v jsonx.Value) (word string, known bool) {
	for _, w := range l.Words {
		if v.EqualText(w) {
			return w, true
		}
	}
	plain := normalizeHintWord(string(v.AppendText(nil)))
	for _, w := range l.Words {
		if normalizeHintWord(w) == plain {
			return w, false
		}
	}
	return l.Other, false
}

// normalizeHintWord returns a word in lower case, without separators: X-High becomes xhigh.
func normalizeHintWord(w string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(w))
}

// MembersWithUnknownHints returns the names of the members with unknown words.
func (r *Request) MembersWithUnknownHints() (names []string) {
	if r.Reasoning.unknown {
		names = append(names, "member:effort")
	}
	if r.Prompt.findUnknownDetail() != nil {
		names = append(names, "member:detail")
	}
	return names
}
