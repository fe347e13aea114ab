package auth

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth/cert"
	"penstock/proxy/access/auth/jwt"
)

// Key describes what a caller may use. A Key is immutable and belongs to one KeyRing. A call uses
// its Key until the call ends.
type Key struct {
	ID string // for the log and the limits; never empty for a configured key
	// CacheOwner is the owner whose cached prompts the key may use if each owner has a separate
	// prompt cache. CacheOwner identifies either the key or the key's cache group.
	CacheOwner string
	// Template is the configured key whose rights and limits a token has. For an API key, it is
	// nil.
	Template *config.Key
	Tiers    config.TierSet // the tiers that the key lists
	Class    string         // class of the key's calls; if empty, the first class

	weight int // weight of the key if keys take turns; at least 1

	bodies config.BodyLimits

	active      bool
	allModels   bool
	models      map[string]struct{}
	prefixes    []string    // model patterns without the trailing star
	operations  []string    // nil if all operations are allowed
	hashExpires []time.Time // expiry times of the key's hashes
	sum         [sha256.Size]byte

	token *verifiedToken // nil for an API key

	peer     *cert.Peer // client whose certificate identified the key, or nil
	identity string

	withheld map[string]struct{} // models that the key may not use yet; see WithholdModels
}

type verifiedToken struct {
	issuer     *config.Issuer
	role       *claimTemplate
	thumbprint jwt.Thumbprint // thumbprint of the public key that verified the token
	validity   jwt.Validity
}

func newConfiguredKey(c *config.Key) *Key {
	k := &Key{
		ID: c.ID, CacheOwner: cmp.Or(cacheGroup(c), "key "+c.ID), active: c.Enabled(), allModels: c.Models == nil,
		Tiers: config.NewTierSet(c.Tiers), Class: c.Class, weight: max(1, c.Weight), bodies: c.Limits.Bodies(),
		models: make(map[string]struct{}, len(c.Models)), operations: slices.Clone(c.Operations),
	}
	for _, m := range c.Models {
		prefix, pattern := strings.CutSuffix(m, "*")
		switch {
		case pattern && prefix == "":
			k.allModels = true
		case pattern:
			k.prefixes = append(k.prefixes, prefix)
		default:
			k.models[m] = struct{}{}
		}
	}
	return k
}

// cacheGroup returns the group with which a key shares cached prompts, or "" if the key has no
// group.
func cacheGroup(c *config.Key) string {
	if c.CacheGroup == "" {
		return ""
	}
	return "group " + c.CacheGroup
}

// AllowsModel reports whether the key may use the model with the given canonical id. A key lists
// model ids, or prefixes of model ids that end with a star. A nil key may not use any model.
func (k *Key) AllowsModel(model string) bool {
	if k == nil {
		return false
	}
	if k.withheld != nil {
		if _, waits := k.withheld[model]; waits {
			return false
		}
	}
	if k.allModels {
		return true
	}
	if _, ok := k.models[model]; ok {
		return true
	}
	for _, p := range k.prefixes {
		if strings.HasPrefix(model, p) {
			return true
		}
	}
	return false
}

// AllowsOperation reports whether the key may use an operation, which is one of the Op… constants
// of package config. A nil key may not use any operation.
func (k *Key) AllowsOperation(op string) bool {
	return k != nil && (k.operations == nil || slices.Contains(k.operations, op))
}

// TurnWeight returns the key's weight if keys take turns. A nil key has the weight 1.
func (k *Key) TurnWeight() float64 {
	if k == nil {
		return 1
	}
	return float64(k.weight)
}

// BodyLimits returns the key's limits on bodies. A nil key has no limits.
func (k *Key) BodyLimits() (l config.BodyLimits) {
	if k != nil {
		l = k.bodies
	}
	return l
}

func isExpired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
