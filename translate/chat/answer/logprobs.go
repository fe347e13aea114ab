package answer

import (
	"bytes"
	"slices"

	"penstock/translate/jsonx"
)

const maxLogprobSearches = 16

// textLogprobs returns the log probabilities for the text of a whole answer, separated by commas.
// It searches for the last run of tokens that equals the text. Engines also list the tokens of the
// reasoning before the text, and of the tool calls after the text. If there is no such run,
// textLogprobs returns nil.
func textLogprobs(list, content jsonx.Value) []byte {
	var (
		all      []byte
		elements []jsonx.Value
		starts   []int // the offset of each token's text in all
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
			for starts[first+1] == at { // skips special tokens, which have no text
				first++
			}
			raw, offset := list.Raw(), list.Start()
			return raw[elements[first].Start()-offset : elements[behind-1].End()-offset]
		}
		end = at + len(text) - 1
	}
	return nil
}

// appendToken prefers the bytes member. If a character spans more than one token, only bytes
// contains each token's part of the character.
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
