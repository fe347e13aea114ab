package auth

import "bytes"

// credentialNames lists the names of query parameters that contain credentials, reduced to
// lower-case letters and digits.
var credentialNames = map[string]struct{}{
	"apikey": {}, "key": {}, "xapikey": {}, "accesskey": {},
	"token": {}, "accesstoken": {}, "apitoken": {}, "authtoken": {}, "bearertoken": {},
	"authorization": {}, "auth": {}, "bearer": {},
	"secret": {}, "apisecret": {}, "clientsecret": {}, "password": {},
}

// CheckQuery returns an *apierr.Error if a query string must be rejected. Otherwise, it returns
// nil. The error is a 401 if the string contains a credential, and a 400 if the string cannot be
// decoded. The 401 takes precedence, so that an invalid escape does not hide a credential. The
// errors are shared and read-only.
//
// A parameter is a credential if its name is one of credentialNames. Before the comparison, the
// name is percent-decoded, converted to lower case, and stripped of all characters other than
// letters and digits. In a name with brackets, such as key[] or a[token], each part is also
// compared. A name or value in the format of NewKey is always a credential.
func CheckQuery(query []byte) error {
	var broken error
	for len(query) > 0 {
		var pair []byte
		pair, query = cutPair(query)
		switch p := (pairScan{src: pair}); p.scanPair() {
		case pairCredential:
			return errCredentialInQuery
		case pairBroken:
			broken = errBadEscape
		case pairHarmless:
		}
	}
	return broken
}

// cutPair splits a query at the next separator. Semicolons count as separators, because some
// servers split at them.
func cutPair(query []byte) (pair, rest []byte) {
	for i, b := range query {
		if b == '&' || b == ';' {
			return query[:i], query[i+1:]
		}
	}
	return query, nil
}

type pairVerdict uint8

const (
	pairHarmless pairVerdict = iota
	pairCredential
	pairBroken
)

// maxName is the maximum number of bytes that reducedName stores. It exceeds the length of every
// name in credentialNames.
const maxName = 24

// pairScan scans and decodes one name=value pair in a single pass, without allocating.
type pairScan struct {
	src []byte
	pos int

	fullName reducedName
	namePart reducedName // the part of the name after the last opening or closing bracket
	keyMatch keyMatcher  // searches the name or the value for a key in the format of NewKey
}

func (p *pairScan) scanPair() pairVerdict {
	inValue, broken := false, false
	for p.pos < len(p.src) {
		splits := p.src[p.pos] == '=' && !inValue // an escaped = is part of the name
		b, ok := p.decodeByte()
		broken = broken || !ok
		switch {
		case splits:
			if p.hasCredentialName() || p.keyMatch.isKey() {
				return pairCredential
			}
			inValue, p.keyMatch = true, keyMatcher{}
		case inValue:
			p.keyMatch.addByte(b)
		case b == '[' || b == ']':
			if p.namePart.isCredential() {
				return pairCredential
			}
			p.namePart = reducedName{}
		default:
			p.fullName.addByte(b)
			p.namePart.addByte(b)
			p.keyMatch.addByte(b)
		}
	}
	switch {
	case p.keyMatch.isKey(), !inValue && p.hasCredentialName():
		return pairCredential
	case broken:
		return pairBroken
	}
	return pairHarmless
}

func (p *pairScan) decodeByte() (b byte, ok bool) {
	b = p.src[p.pos]
	p.pos++
	if b != '%' {
		return b, true
	}
	if p.pos+2 > len(p.src) {
		return b, false
	}
	hi, lo := hexDigitValue(p.src[p.pos]), hexDigitValue(p.src[p.pos+1])
	if hi > 15 || lo > 15 {
		return b, false
	}
	p.pos += 2
	return hi<<4 | lo, true
}

func (p *pairScan) hasCredentialName() bool {
	return p.fullName.isCredential() || p.namePart.isCredential()
}

func hexDigitValue(b byte) byte {
	switch {
	case '0' <= b && b <= '9':
		return b - '0'
	case 'a' <= b && b <= 'f':
		return b - 'a' + 10
	case 'A' <= b && b <= 'F':
		return b - 'A' + 10
	}
	return 0xff
}

// reducedName contains the beginning of a name: only its letters and digits, in lower case.
type reducedName struct {
	buf        [maxName]byte
	n          int
	overflowed bool
}

func (r *reducedName) addByte(b byte) {
	b = lowerByte(b)
	if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
		return
	}
	if r.n == len(r.buf) {
		r.overflowed = true
		return
	}
	r.buf[r.n] = b
	r.n++
}

func (r *reducedName) isCredential() bool {
	if r.overflowed {
		return false
	}
	_, ok := credentialNames[string(r.buf[:r.n])]
	return ok
}

// keyMatcher detects whether a text is a key in the format of NewKey. It stores at most keyLen
// bytes.
type keyMatcher struct {
	buf [keyLen]byte
	n   int
}

func (k *keyMatcher) addByte(b byte) {
	if k.n < len(k.buf) {
		k.buf[k.n] = b
	}
	k.n++
}

func (k *keyMatcher) isKey() bool {
	// The argument of hasValidChecksum escapes to the heap, so the text is copied only if it starts
	// with KeyPrefix.
	return k.n == keyLen && string(k.buf[:len(KeyPrefix)]) == KeyPrefix && hasValidChecksum(bytes.Clone(k.buf[:]))
}
