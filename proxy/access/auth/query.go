package auth

import "bytes"

// credentialNames are the names of query parameters that carry a credential, reduced to lower-case
// letters and digits.
var credentialNames = map[string]struct{}{
	"apikey": {}, "key": {}, "xapikey": {}, "accesskey": {},
	"token": {}, "accesstoken": {}, "apitoken": {}, "authtoken": {}, "bearertoken": {},
	"authorization": {}, "auth": {}, "bearer": {},
	"secret": {}, "apisecret": {}, "clientsecret": {}, "password": {},
}

// CheckQuery looks for a credential in a query string, and returns the *apierr.Error that refuses
// it: a 401 for a credential, a 400 for a string that cannot be decoded. Both errors are shared and
// read-only. A parameter is a credential if its name is one of credentialNames, in any spelling:
// percent escapes are decoded, case and everything but letters and digits are ignored, and a name
// with brackets (key[], a[token]) is also checked piece by piece. A name or value that is one of
// our own keys is a credential under any name.
//
// The error for a credential takes precedence over the error for an undecodable escape, so that a
// broken escape does not hide a credential.
func CheckQuery(query []byte) error {
	var broken error
	for len(query) > 0 {
		var pair []byte
		pair, query = cutPair(query)
		switch p := (pairScan{src: pair}); p.scan() {
		case pairCredential:
			return errInQuery
		case pairBroken:
			broken = errBadEscape
		case pairHarmless:
		}
	}
	return broken
}

// cutPair cuts at the next separator. The semicolon is also a separator: some servers still split
// at semicolons, so a semicolon must not hide a parameter.
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

// maxName is the maximum number of bytes kept of a reduced name. It exceeds the length of every
// name in credentialNames.
const maxName = 24

// pairScan scans one name=value pair once, decodes it while scanning, and does not allocate.
type pairScan struct {
	src []byte
	pos int

	whole reduced // the complete name
	piece reduced // the name since the last bracket
	own   keyScan // one of our own keys, in the name or in the value
}

func (p *pairScan) scan() pairVerdict {
	inValue, broken := false, false
	for p.pos < len(p.src) {
		splits := p.src[p.pos] == '=' && !inValue // an escaped = belongs to the name
		b, ok := p.next()
		broken = broken || !ok
		switch {
		case splits:
			if p.named() || p.own.found() {
				return pairCredential
			}
			inValue, p.own = true, keyScan{}
		case inValue:
			p.own.add(b)
		case b == '[' || b == ']':
			if p.piece.isCredential() {
				return pairCredential
			}
			p.piece = reduced{}
		default:
			p.whole.add(b)
			p.piece.add(b)
			p.own.add(b)
		}
	}
	switch {
	case p.own.found(), !inValue && p.named():
		return pairCredential
	case broken:
		return pairBroken
	}
	return pairHarmless
}

// next returns the next byte, decoded. ok is false for a malformed escape.
func (p *pairScan) next() (b byte, ok bool) {
	b = p.src[p.pos]
	p.pos++
	if b != '%' {
		return b, true
	}
	if p.pos+2 > len(p.src) {
		return b, false
	}
	hi, lo := unhex(p.src[p.pos]), unhex(p.src[p.pos+1])
	if hi > 15 || lo > 15 {
		return b, false
	}
	p.pos += 2
	return hi<<4 | lo, true
}

func (p *pairScan) named() bool { return p.whole.isCredential() || p.piece.isCredential() }

func unhex(b byte) byte {
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

// reduced is the start of a name, reduced to lower-case letters and digits.
type reduced struct {
	buf  [maxName]byte
	n    int
	over bool
}

func (r *reduced) add(b byte) {
	b = lowerByte(b)
	if (b < 'a' || b > 'z') && (b < '0' || b > '9') {
		return
	}
	if r.n == len(r.buf) {
		r.over = true
		return
	}
	r.buf[r.n] = b
	r.n++
}

func (r *reduced) isCredential() bool {
	if r.over {
		return false
	}
	_, ok := credentialNames[string(r.buf[:r.n])]
	return ok
}

// keyScan collects a text that may be one of our own keys. It keeps just enough of the text to
// decide that.
type keyScan struct {
	buf [keyLen]byte
	n   int
}

func (k *keyScan) add(b byte) {
	if k.n < len(k.buf) {
		k.buf[k.n] = b
	}
	k.n++
}

func (k *keyScan) found() bool {
	// The call of checksum makes its argument escape to the heap, so only a text that looks like a
	// key is copied.
	return k.n == keyLen && string(k.buf[:len(Prefix)]) == Prefix && checksum(bytes.Clone(k.buf[:]))
}
