package jsonx

import (
	"math"
	"strconv"
	"unsafe"
)

// Int returns the value of an integral number; 1.0 and 1e2 are integral. It returns false if v is
// not a number, has a fraction, or overflows. Int takes time linear in the number's length.
func (v Value) Int() (int64, bool) {
	if v.d == nil {
		return 0, false
	}
	n := v.node()
	if n.kind != Number {
		return 0, false
	}
	s := v.d.src[n.start:n.end]
	if len(s) <= shortDigits && n.flags&flagFraction == 0 && s[0] != '-' { // the usual case
		var u int64
		for _, c := range s {
			u = u*10 + int64(c-'0')
		}
		return u, true
	}
	neg := s[0] == '-'
	if neg {
		s = s[1:]
	}
	var u uint64
	var ok bool
	if n.flags&flagFraction == 0 {
		u, ok = parseDigits(s, nil)
	} else {
		u, ok = parseScientific(s)
	}
	switch {
	case !ok:
		return 0, false
	case neg && u <= 1<<63:
		return int64(-u), true
	case !neg && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// Every integer of at most shortDigits digits fits into 64 bits.
const shortDigits = 18

func parseDigits(a, b []byte) (u uint64, ok bool) {
	for _, s := range [2][]byte{a, b} {
		for _, c := range s {
			if u > math.MaxUint64/10 {
				return 0, false
			}
			u *= 10
			d := uint64(c - '0')
			if u > math.MaxUint64-d {
				return 0, false
			}
			u += d
		}
	}
	return u, true
}

func parseScientific(s []byte) (u uint64, ok bool) {
	whole := s[:skipDigits(s, 0)]
	s = s[len(whole):]
	var frac []byte
	if len(s) > 0 && s[0] == '.' {
		frac = s[1:skipDigits(s, 1)]
		s = s[1+len(frac):]
	}
	exp := 0
	if len(s) > 0 { // skips the 'e'
		s = s[1:]
		neg := s[0] == '-'
		if s[0] == '-' || s[0] == '+' {
			s = s[1:]
		}
		for _, c := range s {
			// A larger exponent makes no difference, because no source is this long.
			exp = min(exp*10+int(c-'0'), 1<<40)
		}
		if neg {
			exp = -exp
		}
	}
	// The number is integral if all its digits except trailing zeros are before the decimal point.
	exp -= len(frac)
	for len(frac) > 0 && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
		exp++
	}
	if len(frac) == 0 {
		for len(whole) > 0 && whole[len(whole)-1] == '0' {
			whole = whole[:len(whole)-1]
			exp++
		}
	}
	if len(whole)+len(frac) == 0 {
		return 0, true
	}
	if exp < 0 {
		return 0, false
	}
	u, ok = parseDigits(whole, frac)
	for ; ok && u != 0 && exp > 0; exp-- {
		if u > math.MaxUint64/10 {
			return 0, false
		}
		u *= 10
	}
	return u, ok
}

// SmallIntegers reports whether all numbers in v are written as integers of at most nine bytes. If
// any child of v is not recorded, it returns false.
func (v Value) SmallIntegers() bool {
	if v.d == nil {
		return true
	}
	const most = 9
	for _, n := range v.d.nodes[v.i:v.node().next] {
		if n.flags&flagUnrecorded != 0 || n.kind == Number && (n.flags&flagFraction != 0 || n.end-n.start > most) {
			return false
		}
	}
	return true
}

// shortFloat returns the value of a number that has no sign or exponent, and at most 16 digits (15
// if it has a decimal point). The conversion of an integer rounds to the nearest float64. If the
// number has a decimal point, both operands of the division are exact, so the result is also the
// nearest float64.
func shortFloat(s []byte) (float64, bool) {
	digits, scale := 0, 0
	if len(s) > 16 {
		return 0, false
	}
	for _, c := range s {
		switch {
		case c-'0' <= 9:
			digits, scale = digits*10+int(c-'0'), scale*10
		case c == '.':
			scale = 1
		default:
			return 0, false
		}
	}
	return float64(digits) / float64(max(scale, 1)), true
}

// Float returns the value of a number, rounded to the nearest float64. It returns false if v is not
// a number, or is too large to be finite. It allocates only for a number that is too large.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	raw := v.Raw()
	if f, ok := shortFloat(raw); ok {
		return f, true
	}
	// ParseFloat keeps no reference to its argument; its error holds a copy.
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64) //nolint:gosec // see above
	if err != nil {
		return 0, false
	}
	return f, true
}
