package toolcall

// AppendGeneratedID appends an id for a tool call for which the engine sent no usable id. The id consists
// of "call_" and 16 hexadecimal digits, which are a hash of the answer, the choice and the
// position. answer is the edge's id of the answer. Answer ids from engines are not unique enough:
// LMDeploy counts answers since it started, and Ollama chooses from a thousand ids.
func AppendGeneratedID(dst []byte, answer string, choice, position int) []byte {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(answer) {
		h = (h ^ uint64(answer[i])) * prime
	}
	for _, n := range [...]int{choice, position} {
		h = (h ^ uint64(n)) * prime
		h = (h ^ uint64(n)>>8) * prime
	}
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15 // makes all digits depend on the last bytes
	h ^= h >> 29
	dst = append(dst, "call_"...)
	const hex = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, hex[h>>shift&15])
	}
	return dst
}

// isSmallNumber reports whether an id is a small number. Random numeric ids, such as LM Studio's,
// have nine digits.
func isSmallNumber(id []byte) bool {
	for _, b := range id {
		if b < '0' || b > '9' {
			return false
		}
	}
	return len(id) <= 3
}
