package answer

import (
	"bytes"
	"slices"

	"penstock/translate/jsonx"
)

// maxLogprobSearches is the maximum number of positions at which textLogprobs looks for the text.
const maxLogprobSearches = 16

// textLogprobs returns the log probabilities for the text of a whole answer, as elements with
// commas. These are the log probabilities of the last run of tokens that makes up the text. Before
// that run, engines list the tokens of reasoning, which other dialects do not show. After it, they
// list the tokens of tool calls. textLogprobs returns nil if no run of tokens is exactly the text.
func textLogprobs(list, content jsonx.Value) []byte {
	var (
		all      []byte // the text of all tokens
		elements []jsonx.Value
		starts   []int // where each token starts in all
	)
	for it := list.Iter(); it.Next(); {
		elements, starts = append(elements, it.Value()), append(starts, len(all))
		all = appendToken(all, it.Value())
	}
	starts = append(starts, len(all))
	text := content.AppendText(nil)
	end := len(all)
	for range maxLogprobSearches {
		at := bytes.LastIndex(all[:end], text)
		if at < 0 || len(text) == 0 {
			return nil
		}
		first, begins := slices.BinarySearch(starts, at)
		behind, ends := slices.BinarySearch(starts, at+len(text))
		if begins && ends {
			for starts[first+1] == at { // special tokens without text
				first++
			}
			raw, offset := list.Raw(), list.Start()
			return raw[elements[first].Start()-offset : elements[behind-1].End()-offset]
		}
		end = at + len(text) - 1
	}
	return nil
}

// appendToken appends a token's text. A character that spans several tokens appears only in the
// tokens' bytes.
func appendToken(dst []byte, v jsonx.Value) []byte {
	list := v.Get("bytes")
	if !list.IsArray() {
		if token := v.Get("token"); token.IsString() {
			dst = token.AppendText(dst)
		}
		return dst
	}
	for it := list.Iter(); it.Next(); {
		n, _ := it.Value().Int()
		dst = append(dst, byte(n))
	}
	return dst
}
