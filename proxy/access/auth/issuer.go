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

// KeySet provides the public keys of an issuer.
type KeySet interface {
	// Keys returns the current keys, or nil if no keys have been fetched yet.
	Keys() *jwt.Set
	// Renew requests newer keys for a token that the current keys cannot verify, and waits up to a
	// second for them. suspect is true if the current keys include the token's key but the
	// signature is wrong. final is false if newer keys may still verify the token.
	Renew(t *jwt.Token, suspect bool) (final bool)
}

type fixedKeySet struct{ set *jwt.Set }

func (f fixedKeySet) Keys() *jwt.Set { return f.set }

// Renew implements KeySet. It returns true because only a reload rereads the file.
func (fixedKeySet) Renew(*jwt.Token, bool) bool { return true }

const tokenCacheSize = 4096

// tokenIssuers finds the keys for callers that present tokens. It caches verified tokens, keyed by
// hash, so that each signature is verified only once.
type tokenIssuers struct {
	byIssuer       map[string]*tokenIssuer // keyed by the iss claim
	configuredIDs  map[string]struct{}     // ids of configured keys, which must not be assigned to tokens
	verifiedTokens *lru.Cache[[sha256.Size]byte, *Key]
}

type tokenIssuer struct {
	config    *config.Issuer
	keys      KeySet
	templates []claimTemplate
}

// claimTemplate gives a configured key's rights to tokens in which a claim has a given value.
type claimTemplate struct {
	claim, value string // value may end in a star; if claim is empty, the template matches every token
	key          *Key
	expires      time.Time
}

// These are the errors for tokens with a valid signature. Their text contains no part of the token.
var (
	errTokenExpired       = tokenError("The token has expired. Get a new one.")
	errTokenNotYetValid   = tokenError("The token is not valid yet. Check the clock of its issuer.")
	errTokenAudience      = tokenError("The token is for another audience.")
	errTokenWithoutAccess = apierr.Forbidden(apierr.CodeModelNotAllowed, "The token is valid but gives no access here.")
	errNoKeys             = apierr.IssuerUnavailable(time.Second)
)

func tokenError(text string) *apierr.Error {
	return apierr.New(http.StatusUnauthorized, apierr.CodeInvalidAPIKey, "%s", text)
}

// IssuerOptions configures how callers without an API key are identified, by tokens or by client
// certificates. Source returns the KeySet for a URL where an issuer publishes its keys. ClientCA
// contains CA certificates in PEM.
type IssuerOptions struct {
	Config   []config.Issuer
	Source   func(url string) KeySet
	ClientCA []byte
	Unread   bool // whether keys outside the configuration file have not been read yet
}

// hasTemplate reports whether the key with the given id is a template.
func (o *IssuerOptions) hasTemplate(id string) bool {
	return slices.ContainsFunc(o.Config, func(is config.Issuer) bool {
		return slices.ContainsFunc(is.Claims.Templates, func(t config.IssuerTemplate) bool { return t.Key == id })
	})
}

// newIssuers returns the issuers of a configuration, or nil if the configuration has none. keys
// must contain the keys of all templates. The ids in taken are not assigned to tokens.
func newIssuers(o *IssuerOptions, keys []config.Key, taken map[string]struct{}) (*tokenIssuers, error) {
	all := o.Config
	if len(all) == 0 {
		return nil, nil
	}
	verified, err := lru.New[[sha256.Size]byte, *Key](tokenCacheSize)
	if err != nil {
		return nil, err
	}
	s := &tokenIssuers{byIssuer: make(map[string]*tokenIssuer, len(all)), configuredIDs: taken, verifiedTokens: verified}
	for i := range all {
		c := &all[i]
		is := &tokenIssuer{config: c}
		if url, ok := c.KeySetURL(); ok {
			is.keys = o.Source(url)
		} else {
			set, err := jwt.ParseSet(c.Set)
			if err != nil {
				return nil, fmt.Errorf("the keys of issuer %s: %w", c.Name, err)
			}
			is.keys = fixedKeySet{set}
		}
		for _, t := range c.Claims.Templates {
			at := slices.IndexFunc(keys, func(k config.Key) bool { return k.ID == t.Key })
			if at < 0 {
				return nil, fmt.Errorf("issuer %s: a template names key %q, which does not exist", c.Name, t.Key)
			}
			key := newConfiguredKey(&keys[at])
			key.Template = &keys[at]
			is.templates = append(is.templates, claimTemplate{t.Claim, t.Value, key, keys[at].Expires})
		}
		s.byIssuer[c.Issuer] = is
	}
	return s, nil
}

// findKey returns the Key for a token. sum is the token's hash. If the token is not cached, findKey
// verifies its signature.
func (s *tokenIssuers) findKey(credential []byte, sum [sha256.Size]byte, now time.Time) (*Key, error) {
	if !jwt.LooksLikeToken(credential) {
		return nil, errInvalidKey
	}
	k, known := s.verifiedTokens.Get(sum)
	if !known {
		var err error
		if k, err = s.verifyToken(credential, now); err != nil {
			return nil, err
		}
		s.verifiedTokens.Add(sum, k)
	}
	switch err := k.token.validity.CheckTime(now); {
	case errors.Is(err, jwt.ErrExpired):
		return nil, errTokenExpired
	case err != nil:
		return nil, errTokenNotYetValid
	case !s.mayContinue(k, now):
		s.verifiedTokens.Remove(sum)
		return nil, errInvalidKey
	}
	return k, nil
}

func (s *tokenIssuers) mayContinue(k *Key, now time.Time) bool {
	of := k.token.issuer
	is := s.byIssuer[of.Issuer]
	if is == nil || is.config.Name != of.Name {
		return false
	}
	withdrawn := func(audience string) bool { return !slices.Contains(is.config.Audience, audience) }
	// The token may be intended for an audience that a reload has removed.
	if is.config != of && slices.ContainsFunc(of.Audience, withdrawn) {
		return false
	}
	set := is.keys.Keys()
	if set == nil || !set.HasThumbprint(k.token.thumbprint) {
		return false
	}
	return slices.ContainsFunc(is.templates, func(t claimTemplate) bool {
		return t.isSameAs(k.token.role) && t.key.active && !isExpired(t.expires, now)
	})
}

// templateTiers returns the tiers of the token's template. s may be nil.
func (s *tokenIssuers) templateTiers(k *Key) config.TierSet {
	if s == nil || s.byIssuer[k.token.issuer.Issuer] == nil {
		return k.Tiers
	}
	for _, t := range s.byIssuer[k.token.issuer.Issuer].templates {
		if t.key.ID == k.Template.ID {
			return t.key.Tiers
		}
	}
	return k.Tiers
}

func (s *tokenIssuers) verifyToken(credential []byte, now time.Time) (*Key, error) {
	t, err := jwt.ParseToken(credential)
	if err != nil {
		return nil, errInvalidKey
	}
	is := s.byIssuer[t.Issuer]
	if is == nil {
		return nil, errInvalidKey
	}
	claims, print, err := is.verifySignature(t, now)
	if err != nil {
		return nil, err
	}
	times, err := claims.CheckAudience(is.config.Audience)
	switch {
	case errors.Is(err, jwt.ErrAudience):
		return nil, errTokenAudience
	case err != nil:
		return nil, errInvalidKey
	}
	subject := claims.StringValue(is.config.Claims.Key)
	if subject == "" {
		return nil, errInvalidKey
	}
	for i := range is.templates {
		if role := &is.templates[i]; role.matchesClaims(claims) {
			k := *role.key
			k.ID = is.config.Name + "/" + safeID(subject)
			// The id belongs to a configured key or to a key in the store.
			if _, taken := s.configuredIDs[k.ID]; taken {
				return nil, errInvalidKey
			}
			k.CacheOwner = cmp.Or(cacheGroup(role.key.Template), "key "+k.ID)
			k.token = &verifiedToken{is.config, role, print, times}
			return &k, nil
		}
	}
	return nil, errTokenWithoutAccess
}

// verifySignature verifies the signature of a token. If the issuer may have newer keys,
// verifySignature waits for those keys. If the newer keys do not arrive in time, the error is a
// 503, because clients retry a 503 but not a 401.
func (is *tokenIssuer) verifySignature(t *jwt.Token, now time.Time) (jwt.Claims, jwt.Thumbprint, error) {
	verify := func(set *jwt.Set) (jwt.Claims, jwt.Thumbprint, error) {
		if set == nil {
			return jwt.Claims{}, jwt.Thumbprint{}, jwt.ErrUnknownKey
		}
		return t.Verify(set)
	}
	set := is.keys.Keys()
	claims, print, err := verify(set)
	if err == nil {
		return claims, print, nil
	}
	if !t.IsPlausible(is.config.Audience, now) {
		return claims, print, errInvalidKey
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
	return claims, print, errInvalidKey
}

// isSameAs reports whether two templates give the same key's rights to the same tokens. The
// templates may belong to different configurations.
func (t *claimTemplate) isSameAs(o *claimTemplate) bool {
	return t.claim == o.claim && t.value == o.value && t.key.ID == o.key.ID
}

func (t *claimTemplate) matchesClaims(c jwt.Claims) bool {
	prefix, open := strings.CutSuffix(t.value, "*")
	return t.claim == "" || c.HasMatchingValue(t.claim, func(text string) bool {
		return text == t.value || open && strings.HasPrefix(text, prefix)
	})
}

const maxIDBytes = 128

// safePunctuation contains the punctuation characters that are as safe as letters and digits in
// logs, pages, queries, paths and patterns. Mail addresses, UUIDs, base64 and identity providers'
// ids contain no other punctuation.
const safePunctuation = "._-@:|+/="

// safeID converts a claim to an id that is safe in logs, metrics and limits. If the claim is too
// long, contains "..", or contains characters other than letters, digits and safePunctuation,
// safeID replaces it with a hash. Different claims get different ids.
func safeID(claim string) string {
	odd := func(c rune) bool {
		return (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune(safePunctuation, c)
	}
	if len(claim) <= maxIDBytes && !strings.ContainsFunc(claim, odd) && !strings.Contains(claim, "..") {
		return claim
	}
	sum := sha256.Sum256([]byte(claim))
	return "~" + hex.EncodeToString(sum[:16])
}
