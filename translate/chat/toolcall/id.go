package toolcall

// AppendID appends an id for a tool call to which the engine gave none: "call_" and 16 hexadecimal
// digits. The id is always the same for the same answer, choice and position. As far as 64 bits
// allow, it is different for any others. answer is the edge's id for the answer. The engine's own
// id would not do: LMDeploy counts answers from its start, and Ollama draws from a thousand ids,
// but a conversation must not contain the same tool call id twice.
func AppendID(dst []byte, answer string, choice, position int) []byte {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(answer) {
		h = (h ^ uint64(answer[i])) * prime
	}
	for _, n := range [...]int{choice, position} {
		h = (h ^ uint64(n)) * prime
		h = (h ^ uint64(n)>>8) * prime
	}
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15 // spreads the last bytes over all digits
	h ^= h >> 29
	dst = append(dst, "call_"...)
	const hex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hex[h>>shift&15])
	}
	return dst
}

// isCount reports whether an id is a small number. Random ids that consist of digits, as in LM
// Studio, have nine.
func isCount(id []byte) bool {
	for _, b := range id {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(id) <= 3
}
