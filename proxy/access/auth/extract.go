package auth

import (
	"bytes"
	"net/http"
	"time"

	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// CredentialInput contains the arguments of ExtractCredential. Its bytes are borrowed.
type CredentialInput struct {
	Authorization CredentialHeader
	APIKey        CredentialHeader // the x-api-key header
	Query         []byte           // the query string as sent, without the question mark
	Last          *LastKeyCache    // nil if keys are not cached
}

// CredentialHeader is a request header.
type CredentialHeader struct {
	firstValue []byte
	count      int // number of occurrences of the header
}

// Add adds an occurrence of the header.
func (h *CredentialHeader) Add(value []byte) {
	if h.count++; h.count == 1 {
		h.firstValue = value
	}
}

// Credential is an API key as the client sent it. It borrows the request's bytes and must not
// outlive them. Only a LastKeyCache may store the key.
type Credential struct {
	key      []byte
	value    []byte // header value; not set if cached is true
	location keyLocation
	cached   bool          // whether the key is the connection's cached key
	lastKey  *LastKeyCache // may be nil
}

// String hides the key from every formatter.
func (c Credential) String() string { return "redacted" }

// GoString hides the key from %#v.
func (c Credential) GoString() string { return "redacted" }

// These errors are allocated only once, so that a flood of bad credentials does not allocate
// memory. They are shared and read-only.
var (
	errInvalidKey        = apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	errKeysNotRead       = apierr.KeysUnavailable(time.Second)
	errCredentialInQuery = apierr.Unauthorized(apierr.CodeCredentialInQuery)
	errBadEscape         = apierr.New(http.StatusBadRequest, apierr.CodeInvalidValue,
		"The query string cannot be decoded: a percent sign is not followed by two hexadecimal digits.")
)

// ErrCredentialConflict is the 401 for a request with two credentials. It is shared and read-only.
var ErrCredentialConflict = apierr.Unauthorized(apierr.CodeCredentialConflict)

// These are the errors for a request that has both an Authorization and an x-api-key header, one of
// which is empty. A client sends an empty header if the environment variable for its key is not
// set.
var (
	errEmptyAuthorization = emptyHeaderError("Authorization", "x-api-key")
	errEmptyAPIKey        = emptyHeaderError("x-api-key", "Authorization")
)

func emptyHeaderError(name, other string) *apierr.Error {
	return apierr.New(http.StatusUnauthorized, apierr.CodeCredentialConflict,
		"The header %s is empty beside a key in %s. Leave the empty one out: its variable may not be set.",
		name, other)
}

// ExtractCredential returns the credential in a request. present is false if the request has no
// credential. The key is in "Authorization: Bearer KEY" or in "x-api-key: KEY". If both headers are
// present, they must contain the same key (see the contract, Authentication, 1 to 3). A key
// consists of visible ASCII characters other than the comma, which separates list elements in HTTP.
//
// The error is always an *apierr.Error. It is shared and read-only. The error applies to every
// endpoint, including public ones. The status is 400 if the query string cannot be decoded. The
// status is 401 for:
//
//   - a header that occurs twice or contains a list;
//   - two different keys;
//   - a scheme other than Bearer;
//   - an empty or malformed key;
//   - a credential in the query string, even if a header contains a valid credential.
func ExtractCredential(r *CredentialInput) (c Credential, present bool, err error) {
	if len(r.Query) > 0 {
		if err := CheckQuery(r.Query); err != nil {
			return Credential{}, false, err
		}
	}
	if c, again := r.Last.matchRequest(r); again {
		return c, true, nil
	}
	if r.Authorization.count > 1 || r.APIKey.count > 1 {
		return Credential{}, false, ErrCredentialConflict
	}
	if r.Authorization.count == 1 && r.APIKey.count == 1 {
		switch noBearer, noKey := isEmptyBearer(r.Authorization.firstValue), len(trimBlanks(r.APIKey.firstValue)) == 0; {
		case noBearer && !noKey:
			return Credential{}, false, errEmptyAuthorization
		case noKey && !noBearer:
			return Credential{}, false, errEmptyAPIKey
		}
	}
	if r.Authorization.count == 1 {
		key, err := parseBearer(r.Authorization.firstValue)
		if err != nil {
			return Credential{}, false, err
		}
		c, present = Credential{key: key, value: r.Authorization.firstValue, location: locationAuthorization, lastKey: r.Last}, true
	}
	if r.APIKey.count == 1 {
		key, err := parseKey(trimBlanks(r.APIKey.firstValue))
		if err != nil {
			return Credential{}, false, err
		}
		// Both values come from this request, so the comparison does not need to take constant
		// time.
		if present && !bytes.Equal(key, c.key) {
			return Credential{}, false, ErrCredentialConflict
		}
		c, present = Credential{key: key, value: r.APIKey.firstValue, location: c.location | locationAPIKey, lastKey: r.Last}, true
	}
	return c, present, nil
}

func isEmptyBearer(value []byte) bool {
	value = trimBlanks(value)
	return len(value) == 0 || httptoken.EqualFold(value, "bearer")
}

// parseBearer returns the key in an Authorization header. The scheme is case-insensitive and is
// followed by one or more spaces (RFC 9110, 11.4 and RFC 6750, 2.1).
func parseBearer(value []byte) ([]byte, error) {
	const scheme = "bearer"
	value = trimBlanks(value)
	if len(value) <= len(scheme) || value[len(scheme)] != ' ' || !httptoken.EqualFold(value[:len(scheme)], scheme) {
		if bytes.IndexByte(value, ',') >= 0 {
			return nil, ErrCredentialConflict
		}
		return nil, errInvalidKey
	}
	return parseKey(bytes.TrimLeft(value[len(scheme):], " "))
}

// parseKey returns value if it consists of exactly one valid key.
func parseKey(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errInvalidKey
	}
	for _, b := range value {
		if b-'!' > '~'-'!' || b == ',' {
			if bytes.IndexByte(value, ',') >= 0 {
				return nil, ErrCredentialConflict
			}
			return nil, errInvalidKey
		}
	}
	return value, nil
}

func trimBlanks(value []byte) []byte { return httptoken.TrimBlanks(value) }

func lowerByte(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}
