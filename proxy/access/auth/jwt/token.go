package jwt

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	stdjson "encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/json"
)

// MaxToken is the maximum size of a token in bytes. The header and the claims usually have a size
// of a few KiB.
const MaxToken = 16 << 10

// ClockLeeway is the tolerated difference between the issuer's clock and the edge's clock.
const ClockLeeway = 60 * time.Second

// These are the reasons for rejecting a token.
var (
	ErrMalformed  = errors.New("it is not a token of an accepted form")
	ErrUnknownKey = errors.New("its key is not among the issuer's")
	ErrSignature  = errors.New("its signature is invalid")
	ErrAudience   = errors.New("it is for another audience")
	ErrExpired    = errors.New("it has expired")
	ErrNotYet     = errors.New("it is not valid yet")
)

// LooksLikeToken reports whether a credential consists of three parts separated by dots, like a
// token.
func LooksLikeToken(credential []byte) bool { return bytes.Count(credential, []byte{'.'}) == 2 }

// Token is a parsed token. It must not be trusted until Verify has succeeded.
type Token struct {
	Issuer    string // not verified yet
	Algorithm string
	keyID     string
	jws       *jose.JSONWebSignature
	claims    map[string]any
}

// ParseToken parses a token. The error is ErrMalformed.
func ParseToken(credential []byte) (*Token, error) {
	if len(credential) > MaxToken {
		return nil, ErrMalformed
	}
	text := string(credential)
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, ErrMalformed
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || len(decoded[i]) == 0 ||
			strings.ContainsAny(part, "\r\n") {
			return nil, ErrMalformed
		}
	}
	if !isAcceptedHeader(decoded[0]) {
		return nil, ErrMalformed
	}
	t := &Token{}
	if t.claims = parseObject(decoded[1]); t.claims == nil {
		return nil, ErrMalformed
	}
	var err error
	t.jws, err = jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA})
	if err != nil || len(t.jws.Signatures) != 1 {
		return nil, ErrMalformed
	}
	h := t.jws.Signatures[0].Protected
	t.Algorithm, t.keyID = h.Algorithm, h.KeyID
	t.Issuer, _ = t.claims["iss"].(string)
	return t, nil
}

// isAcceptedHeader reports whether a header contains no members that change how the token is
// verified or interpreted.
func isAcceptedHeader(text []byte) bool {
	header := parseObject(text)
	if header == nil {
		return false
	}
	for _, name := range []string{"crit", "b64", "zip", "enc"} {
		if _, ok := header[name]; ok {
			return false
		}
	}
	typ, ok := header["typ"]
	if !ok {
		return true
	}
	word, _ := typ.(string)
	switch strings.TrimPrefix(strings.ToLower(word), "application/") {
	case "jwt", "at+jwt":
		return true
	}
	return false
}

// parseObject parses a JSON object. It returns nil if text is not an object or has duplicate
// members.
func parseObject(text []byte) (members map[string]any) {
	if !stdjson.Valid(text) || json.Unmarshal(text, &members) != nil {
		return nil
	}
	return members
}

// Verify verifies the signature with the keys in s that match the token. It returns the claims, and
// the thumbprint of the key that verified the signature. The error is ErrUnknownKey or
// ErrSignature.
func (t *Token) Verify(s *Set) (Claims, Thumbprint, error) {
	keys := s.candidateKeys(t)
	if len(keys) == 0 {
		return Claims{}, Thumbprint{}, ErrUnknownKey
	}
	for _, k := range keys {
		if _, err := t.jws.Verify(k.public); err == nil {
			return Claims{t.claims}, k.thumbprint, nil
		}
	}
	return Claims{}, Thumbprint{}, ErrSignature
}

// IsPlausible reports whether the token is intended for one of the audiences and is valid at the
// time now. It does not check the signature. Newer keys are fetched only for plausible tokens.
func (t *Token) IsPlausible(audiences []string, now time.Time) bool {
	times, err := Claims{t.claims}.CheckAudience(audiences)
	return err == nil && times.CheckTime(now) == nil
}

// HeaderHash returns a hash of alg and kid, the header members that select the key.
func (t *Token) HeaderHash() Thumbprint { return sha256.Sum256([]byte(t.Algorithm + "\x00" + t.keyID)) }

// Claims contains the claims of a verified token.
type Claims struct{ members map[string]any }

// Validity is the validity period of a token, extended by the leeway at both ends.
type Validity struct{ From, To time.Time }

// CheckAudience checks that the token is intended for one of the audiences, and returns its
// validity period. The error is ErrAudience or ErrMalformed.
func (c Claims) CheckAudience(audiences []string) (Validity, error) {
	if !slices.ContainsFunc(stringList(c.members["aud"]), func(a string) bool { return slices.Contains(audiences, a) }) {
		return Validity{}, ErrAudience
	}
	var at Validity
	for _, name := range []string{"exp", "nbf", "iat"} {
		value, ok := c.members[name]
		if !ok {
			continue
		}
		seconds, ok := value.(float64)
		if !ok || seconds < 0 || seconds > math.MaxInt32*100 {
			return Validity{}, ErrMalformed
		}
		switch moment := time.Unix(int64(seconds), 0); {
		case name == "exp":
			at.To = moment.Add(ClockLeeway)
		case moment.Add(-ClockLeeway).After(at.From):
			at.From = moment.Add(-ClockLeeway)
		}
	}
	if at.To.IsZero() {
		return Validity{}, ErrMalformed
	}
	return at, nil
}

// CheckTime checks whether the token is valid at the wall-clock time now. The error is ErrExpired
// or ErrNotYet.
func (t Validity) CheckTime(now time.Time) error {
	switch now = now.Round(0); {
	case !now.Before(t.To):
		return ErrExpired
	case now.Before(t.From):
		return ErrNotYet
	}
	return nil
}
