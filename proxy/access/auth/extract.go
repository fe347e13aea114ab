package auth

import (
	"bytes"
	"net/http"
	"time"

	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// Request holds what Extract reads from a request. All bytes are borrowed.
type Request struct {
	Authorization Header
	APIKey        Header   // x-api-key
	Query         []byte   // the query string as it was sent, without the question mark
	Last          *LastKey // the connection's last key; nil: nothing is remembered
}

// Header is a header of a request.
type Header struct {
	first []byte
	times int // how often the header occurs
}

// Add adds an occurrence of the header.
func (h *Header) Add(value []byte) {
	if h.times++; h.times == 1 {
		h.first = value
	}
}

// Credential is an API key as the client sent it. It borrows the request's bytes and must not
// outlive them. Only the LastKey of its connection stores it.
type Credential struct {
	key   []byte
	value []byte // the header's bytes; not set if again is true
	in    header
	again bool     // the key is the same as last
	last  *LastKey // may be nil
}

// String hides the key from every formatter.
func (c Credential) String() string { return "redacted" }

// GoString hides the key from %#v.
func (c Credential) GoString() string { return "redacted" }

// The errors are built once, so that a flood of bad credentials allocates nothing. They are shared
// and must not be changed.
var (
	errInvalid   = apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	errUnread    = apierr.KeysUnavailable(time.Second)
	errInQuery   = apierr.Unauthorized(apierr.CodeCredentialInQuery)
	errBadEscape = apierr.New(http.StatusBadRequest, apierr.CodeInvalidValue,
		"The query string cannot be decoded: a percent sign is not followed by two hexadecimal digits.")
)

// ErrConflict is the 401 for a request with two credentials. It is shared and read-only.
var ErrConflict = apierr.Unauthorized(apierr.CodeCredentialConflict)

// The errors for a request with both headers if one of them is empty. A client with an unset
// variable sends such an empty header in addition to its key.
var (
	errEmptyAuthorization = emptyHeader("Authorization", "x-api-key")
	errEmptyAPIKey        = emptyHeader("x-api-key", "Authorization")
)

func emptyHeader(name, other string) *apierr.Error {
	return apierr.New(http.StatusUnauthorized, apierr.CodeCredentialConflict,
		"The header %s is empty beside a key in %s. Leave the empty one out: its variable may not be set.",
		name, other)
}

// Extract returns the credential of a request and whether there is one. The key is in
// "Authorization: Bearer KEY", in "x-api-key: KEY", or in both if the two keys have the same bytes
// (contract, Authentication 1 to 3).
//
// The error is always an *apierr.Error, shared and read-only. It applies to every endpoint,
// including public ones. It is a 401 for a header that occurs twice or holds a list, for two
// different keys, for a scheme other than Bearer, for an empty or malformed key, and for a
// credential in the query string, even if a header is valid. It is a 400 for a query string that
// cannot be decoded.
//
// A key is one or more visible ASCII characters except the comma, which HTTP reserves for lists.
func Extract(r *Request) (c Credential, present bool, err error) {
	if len(r.Query) > 0 {
		if err := CheckQuery(r.Query); err != nil {
			return Credential{}, false, err
		}
	}
	if c, again := r.Last.recall(r); again {
		return c, true, nil
	}
	if r.Authorization.times > 1 || r.APIKey.times > 1 {
		return Credential{}, false, ErrConflict
	}
	if r.Authorization.times == 1 && r.APIKey.times == 1 {
		switch noBearer, noKey := emptyBearer(r.Authorization.first), len(trim(r.APIKey.first)) == 0; {
		case noBearer && !noKey:
			return Credential{}, false, errEmptyAuthorization
		case noKey && !noBearer:
			return Credential{}, false, errEmptyAPIKey
		}
	}
	if r.Authorization.times == 1 {
		key, err := parseBearer(r.Authorization.first)
		if err != nil {
			return Credential{}, false, err
		}
		c, present = Credential{key: key, value: r.Authorization.first, in: inAuthorization, last: r.Last}, true
	}
	if r.APIKey.times == 1 {
		key, err := parseKey(trim(r.APIKey.first))
		if err != nil {
			return Credential{}, false, err
		}
		// Both values are from this request, so timing reveals nothing.
		if present && !bytes.Equal(key, c.key) {
			return Credential{}, false, ErrConflict
		}
		c, present = Credential{key: key, value: r.APIKey.first, in: c.in | inAPIKey, last: r.Last}, true
	}
	return c, present, nil
}

// emptyBearer reports whether an Authorization header is empty, or has no key after Bearer.
func emptyBearer(value []byte) bool {
	value = trim(value)
	return len(value) == 0 || httptoken.EqualFold(value, "bearer")
}

// parseBearer returns the key in the value of an Authorization header. The scheme is not
// case-sensitive and is followed by one or more spaces (RFC 9110, 11.4 and RFC 6750, 2.1).
func parseBearer(value []byte) ([]byte, error) {
	const scheme = "bearer"
	value = trim(value)
	if len(value) <= len(scheme) || value[len(scheme)] != ' ' || !httptoken.EqualFold(value[:len(scheme)], scheme) {
		if bytes.IndexByte(value, ',') >= 0 {
			return nil, ErrConflict
		}
		return nil, errInvalid
	}
	return parseKey(bytes.TrimLeft(value[len(scheme):], " "))
}

// parseKey checks that value is one key and nothing else.
func parseKey(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errInvalid
	}
	for _, b := range value {
		if b-'!' > '~'-'!' || b == ',' {
			if bytes.IndexByte(value, ',') >= 0 {
				return nil, ErrConflict
			}
			return nil, errInvalid
		}
	}
	return value, nil
}

// trim cuts off the blanks that HTTP allows around the value of a header.
func trim(value []byte) []byte { return httptoken.TrimBlanks(value) }

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
