package answer

import (
	"bytes"
	"math"
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// JSON does not limit numbers, but clients read counts and times as 64-bit integers or as floats.
// These clients fail on 1e400, or overflow when they add up counts.

// maxExactInteger is the bound up to which floats represent every integer.
const maxExactInteger = 1 << 53

// IsValidCreated reports whether v is a time that clients accept in `created`: whole seconds,
// written as digits only.
func IsValidCreated(v jsonx.Value) bool {
	raw := v.Raw()
	if len(raw) == 0 || len(raw) > 15 {
		return false
	}
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// BoundCreated returns the replacement for the value v of `created`, or nil if clients accept v.
// The replacement is v in whole seconds, or 0 if v is too large.
func BoundCreated(v jsonx.Value) []byte {
	if !v.IsNumber() || IsValidCreated(v) {
		return nil
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	if err != nil || f < 0 || f > maxExactInteger {
		f = 0
	}
	return strconv.AppendInt(nil, int64(f), 10)
}

// BoundNumbers returns raw with its numbers limited: token counts to 2^31, and other numbers to
// 2^53. raw must be valid JSON. If no number changes, BoundNumbers returns nil.
func BoundNumbers(raw []byte) []byte {
	if !mayHaveLargeNumbers(raw) {
		return nil
	}
	var (
		out    []byte
		from   int // raw[from:] has not been copied to out yet
		counts bool
	)
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			end := i + stringLiteralLength(raw[i:])
			if rest := bytes.TrimLeft(raw[end:], " \t\r\n"); len(rest) > 0 && rest[0] == ':' {
				counts = bytes.HasSuffix(raw[i:end], []byte(`tokens"`))
			}
			i = end
		case c == '-' || '0' <= c && c <= '9':
			end := i + 1
			for end < len(raw) && isNumberByte(raw[end]) {
				end++
			}
			if bound, over := exceededNumberBound(raw[i:end], counts); over {
				out = strconv.AppendInt(append(out, raw[from:i]...), bound, 10)
				from = end
			}
			i = end
		default:
			i++
		}
	}
	if from == 0 {
		return nil
	}
	return append(out, raw[from:]...)
}

// mayHaveLargeNumbers reports whether raw may contain a number that exceeds a limit. It looks for
// ten digits in a row or an exponent.
func mayHaveLargeNumbers(raw []byte) bool {
	digits := 0
	for _, c := range raw {
		switch {
		case '0' <= c && c <= '9':
			if digits++; digits >= 10 {
				return true
			}
		case (c == 'e' || c == 'E') && digits > 0:
			return true
		default:
			digits = 0
		}
	}
	return false
}

func exceededNumberBound(number []byte, count bool) (bound int64, over bool) {
	f, err := strconv.ParseFloat(string(number), 64)
	most := int64(maxExactInteger)
	if count {
		most = translate.MaxCount
	}
	switch {
	case err == nil && math.Abs(f) <= float64(most):
		return 0, false
	case f < 0:
		return 0, true
	}
	return most, true
}

func stringLiteralLength(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

func isNumberByte(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c|0x20 == 'e' || c == '+' || c == '-'
}

// BoundNumbersIn limits the numbers in an object.
func BoundNumbersIn(edits *jsonx.Edits, v jsonx.Value) {
	// Nearly always true for a usage, and cheaper than a scan of the bytes.
	if !v.IsObject() || v.SmallIntegers() {
		return
	}
	if b := BoundNumbers(v.Raw()); b != nil {
		edits.Set(v, b)
	}
}
