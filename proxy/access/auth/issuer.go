package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/config"
	"penstock/proxy/access/auth/jwt"
	"penstock/translate/apierr"
)

// KeySet verifies the tokens of an issuer.
type KeySet interface {
	// Keys returns the current keys, or nil if there are none yet.
	Keys() *jwt.Set
	// Renew requests newer keys for a token that the current keys do not verify, and waits for at
	// most a second. suspect means that the current keys include one for the token, but the
	// signature is wrong under that key. Renew returns false if a later set of keys may still
	// verify the token.
	Renew(t *jwt.Token, suspect bool) (final bool)
}

// fixedKeys are the keys of a file.
type fixedKeys struct{ set *jwt.Set }

func (f fixedKeys) Keys() *jwt.Set { return f.set }

// Renew implements KeySet. It returns true, because only a reload reads a file again.
func (fixedKeys) Renew(*jwt.Token, bool) bool { return true }

// rememberedTokens is the maximum number of verified tokens that a ring remembers. The ring keeps
// the most recent ones.
const rememberedTokens = 4096

// issuers holds the issuers whose tokens are accepted in addition to keys. The result of a token's
// signature check is cached under the token's hash, so the signature is checked only once.
type issuers struct {
	byName   map[string]*issuer  // by the iss claim of their tokens
	taken    map[string]struct{} // ids of keys
	verified *lru.Cache[[sha256.Size]byte, *Key]
}

type issuer struct {
	config    *config.Issuer
	keys      KeySet
	templates []template // in the order of the configuration
}

// template gives the rights of a key to tokens with a certain value in a claim.
type template struct {
	claim, value string // value may end in a star; an empty claim matches all tokens
	key          *Key
	ends         time.Time
}

// The errors for tokens with a valid signature. Their texts quote nothing from a token.
var (
	errExpired  = tokenError("The token has expired. Get a new one.")
	errNotYet   = tokenError("The token is not valid yet. Check the clock of its issuer.")
	errAudience = tokenError("The token is for another audience.")
	errNoRole   = apierr.Forbidden(apierr.CodeModelNotAllowed, "The token is valid but gives no access here.")
	errNoKeys   = apierr.IssuerUnavailable(time.Second)
)

func tokenError(text string) *apierr.Error {
	return apierr.New(http.StatusUnauthorized, apierr.CodeInvalidAPIKey, "%s", text)
}

// Issuers holds what identifies callers without a key: the issuers whose tokens a ring accepts, the
// source of the keys that some issuers publish at a URL, and the authority for client certificates
// in PEM form.
type Issuers struct {
	Config   []config.Issuer
	Source   func(url string) KeySet
	ClientCA []byte
	Unread   bool // some keys besides the ring's have not been read yet
}

// names reports whether tokens may get the rights of the key with this id.
func (o *Issuers) names(id string) bool {
	return slices.ContainsFunc(o.Config, func(is config.Issuer) bool {
		return slices.ContainsFunc(is.Claims.Templates, func(t config.IssuerTemplate) bool { return t.Key == id })
	})
}

// newIssuers returns the issuers of a configuration, or nil if it has none. keys must include the
// templates' keys. No token may get an id that is in taken.
func newIssuers(o *Issuers, keys []config.Key, taken map[string]struct{}) (*issuers, error) {
	all := o.Config
	if len(all) == 0 {
		return nil, nil
	}
	verified, err := lru.New[[sha256.Size]byte, *Key](rememberedTokens)
	if err != nil {
		return nil, err
	}
	s := &issuers{byName: make(map[string]*issuer, len(all)), taken: taken, verified: verified}
	for i := range all {
		c := &all[i]
		is := &issuer{config: c}
		if url, ok := c.URL(); ok {
			is.keys = o.Source(url)
		} else {
			set, err := jwt.ParseSet(c.Set)
			if err != nil {
				return nil, fmt.Errorf("the keys of issuer %s: %w", c.Name, err)
			}
			is.keys = fixedKeys{set}
		}
		for _, t := range c.Claims.Templates {
			at := slices.IndexFunc(keys, func(k config.Key) bool { return k.ID == t.Key })
			if at < 0 {
				return nil, fmt.Errorf("issuer %s: a template names key %q, which does not exist", c.Name, t.Key)
			}
			key := newConfigured(&keys[at])
			key.Template = &keys[at]
			is.templates = append(is.templates, template{t.Claim, t.Value, key, keys[at].Expires})
		}
		s.byName[c.Issuer] = is
	}
	return s, nil
}

// find returns the key that a token stands for. sum is the token's hash. If the ring does not
// remember the token, find verifies its signature.
func (s *issuers) find(credential []byte, sum [sha256.Size]byte, now time.Time) (*Key, error) {
	if !jwt.Looks(credential) {
		return nil, errInvalid
	}
	k, known := s.verified.Get(sum)
	if !known {
		var err error
		if k, err = s.verify(credential, now); err != nil {
			return nil, err
		}
		s.verified.Add(sum, k)
	}
	switch err := k.token.times.Hold(now); {
	case errors.Is(err, jwt.ErrExpired):
		return nil, errExpired
	case err != nil:
		return nil, errNotYet
	case !s.holds(k, now):
		s.verified.Remove(sum)
		return nil, errInvalid
	}
	return k, nil
}

// holds reports whether a token's public key, its audience and the template that gives its rights
// are still in force.
func (s *issuers) holds(k *Key, now time.Time) bool {
	of := k.token.issuer
	is := s.byName[of.Issuer]
	if is == nil || is.config.Name != of.Name {
		return false
	}
	withdrawn := func(audience string) bool { return !slices.Contains(is.config.Audience, audience) }
	// the token may be for one of the withdrawn audiences
	if is.config != of && slices.ContainsFunc(of.Audience, withdrawn) {
		return false
	}
	set := is.keys.Keys()
	if set == nil || !set.Has(k.token.print) {
		return false
	}
	return slices.ContainsFunc(is.templates, func(t template) bool {
		return t.same(k.token.role) && t.key.active && !expired(t.ends, now)
	})
}

// tiers returns the tiers of the template that gives a token its rights. s may be nil.
func (s *issuers) tiers(k *Key) uint8 {
	if s == nil || s.byName[k.token.issuer.Issuer] == nil {
		return 0
	}
	for _, t := range s.byName[k.token.issuer.Issuer].templates {
		if t.key.ID == k.Template.ID {
			return t.key.Tiers
		}
	}
	return 0
}

// verify checks a token's signature and claims, and makes the key that the token stands for.
func (s *issuers) verify(credential []byte, now time.Time) (*Key, error) {
	t, err := jwt.Parse(credential)
	if err != nil {
		return nil, errInvalid
	}
	is := s.byName[t.Issuer]
	if is == nil {
		return nil, errInvalid
	}
	claims, print, err := is.prove(t, now)
	if err != nil {
		return nil, err
	}
	times, err := claims.Check(is.config.Audience)
	switch {
	case errors.Is(err, jwt.ErrAudience):
		return nil, errAudience
	case err != nil:
		return nil, errInvalid
	}
	subject := claims.Text(is.config.Claims.Key)
	if subject == "" {
		return nil, errInvalid
	}
	for i := range is.templates {
		if role := &is.templates[i]; role.fits(claims) {
			k := *role.key
			k.ID = is.config.Name + "/" + safeID(subject)
			if _, taken := s.taken[k.ID]; taken { // a key of the store has this id
				return nil, errInvalid
			}
			k.CacheOwner = cmp.Or(groupOf(role.key.Template), "key "+k.ID)
			k.token = &token{is.config, role, print, times}
			return &k, nil
		}
	}
	return nil, errNoRole
}

// prove checks a token's signature with the keys of its issuer. A token that newer keys may verify
// waits for those keys. If they are not fetched in time, prove refuses the token with a 503.
// Clients retry a 503 but not a 401.
func (is *issuer) prove(t *jwt.Token, now time.Time) (jwt.Claims, jwt.Print, error) {
	verify := func(set *jwt.Set) (jwt.Claims, jwt.Print, error) {
		if set == nil {
			return jwt.Claims{}, jwt.Print{}, jwt.ErrUnknownKey
		}
		return t.Verify(set)
	}
	set := is.keys.Keys()
	claims, print, err := verify(set)
	if err == nil {
		return claims, print, nil
	}
	if !t.Plausible(is.config.Audience, now) {
		return claims, print, errInvalid
	}
	final := is.keys.Renew(t, errors.Is(err, jwt.ErrSignature))
	if newer := is.keys.Keys(); newer != set {
		set = newer
		claims, print, err = verify(set)
	}
	switch {
	case err == nil:
		return claims, print, nil
	case set == nil || !final:
		return claims, print, errNoKeys
	}
	return claims, print, errInvalid
}

// same reports whether two templates give the same tokens the rights of the same key. The templates
// may belong to two configurations.
func (t *template) same(o *template) bool {
	return t.claim == o.claim && t.value == o.value && t.key.ID == o.key.ID
}

func (t *template) fits(c jwt.Claims) bool {
	prefix, open := strings.CutSuffix(t.value, "*")
	return t.claim == "" || c.Any(t.claim, func(text string) bool {
		return text == t.value || open && strings.HasPrefix(text, prefix)
	})
}

// longestID is the maximum length of a claim in a key's id.
const longestID = 128

// plainMarks are the characters, apart from ASCII letters and digits, that have no special meaning
// in logs, pages, queries, paths and patterns. Mail addresses, UUIDs, provider names (colons, bars
// and slashes) and base64 contain them.
const plainMarks = "._-@:|+/="

// safeID returns a claim in a form that a key's id may contain, for logs, metrics and limits. It
// replaces the claim with its hash if the claim is long, could be read as a step up in a path, or
// has other characters than letters, digits and plainMarks. Distinct claims always have distinct
// ids.
func safeID(claim string) string {
	odd := func(c rune) bool {
		return (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune(plainMarks, c)
	}
	if len(claim) <= longestID && !strings.ContainsFunc(claim, odd) && !strings.Contains(claim, "..") {
		return claim
	}
	sum := sha256.Sum256([]byte(claim))
	return "~" + hex.EncodeToString(sum[:16])
}
