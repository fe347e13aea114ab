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

// Key holds the rights of a configured key. A key may use everything that the configuration does
// not exclude. A Key is immutable and belongs to one Ring. A call may keep its Key until the call
// ends.
type Key struct {
	ID string // for the log and for the limits; never empty for a configured key
	// CacheOwner is the owner of the cached prompts that the key may use, if the cached prompts of
	// different owners are separated. It is the key itself, or its cache group.
	CacheOwner string
	// Template is the entry that gives a token its rights and limits; nil for a key.
	Template *config.Key
	// Tiers has a bit for each tier of deployments that the key lists; 0: it lists none.
	Tiers uint8
	Class string // class of the key's calls; empty: the first class

	weight int // the key's weight when keys take turns; at least 1

	bodies config.BodyLimits

	active     bool
	all        bool // every model
	models     map[string]struct{}
	prefixes   []string          // patterns without their stars
	operations []string          // nil: every operation
	expires    []time.Time       // the expiry times of the key's hashes
	sum        [sha256.Size]byte // the hash by which the key was found

	token *token // nil for a key

	peer *cert.Peer // the client whose certificate identified the key; nil without a certificate
	mark string     // the mark of that certificate

	withheld map[string]struct{} // models that the key may not use until its file's models are in force; see Withhold
}

// token holds the data of the token that a Key stands for.
type token struct {
	issuer *config.Issuer
	role   *template // gives the key its rights
	print  jwt.Print // thumbprint of the public key that verified the token
	times  jwt.Times
}

func newConfigured(c *config.Key) *Key {
	k := &Key{
		ID: c.ID, CacheOwner: cmp.Or(groupOf(c), "key "+c.ID), active: c.Enabled(), all: c.Models == nil,
		Class: c.Class, weight: max(1, c.Weight), bodies: c.Limits.Bodies(),
		models: make(map[string]struct{}, len(c.Models)), operations: slices.Clone(c.Operations),
	}
	for _, tier := range c.Tiers {
		k.Tiers |= uint8(1 << max(0, tier)) // a tier above config.MaxTier has no bit
	}
	for _, m := range c.Models {
		prefix, pattern := strings.CutSuffix(m, "*")
		switch {
		case pattern && prefix == "":
			k.all = true
		case pattern:
			k.prefixes = append(k.prefixes, prefix)
		default:
			k.models[m] = struct{}{}
		}
	}
	return k
}

// groupOf returns the name of the group that shares a key's cached prompts; empty: none.
func groupOf(c *config.Key) string {
	if c.CacheGroup == "" {
		return ""
	}
	return "group " + c.CacheGroup
}

// Allows reports whether the key may use the model with a canonical id. A key names models exactly
// or by a pattern that ends with a star. A nil key may use nothing.
func (k *Key) Allows(model string) bool {
	if k == nil {
		return false
	}
	if k.withheld != nil {
		if _, waits := k.withheld[model]; waits {
			return false
		}
	}
	if k.all {
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

// AllowsOp reports whether the key may use the operation, one of the Op constants of package
// config. A nil key may use nothing.
func (k *Key) AllowsOp(op string) bool {
	return k != nil && (k.operations == nil || slices.Contains(k.operations, op))
}

// Share returns the key's weight when keys take turns. A nil key has the weight 1.
func (k *Key) Share() float64 {
	if k == nil {
		return 1
	}
	return float64(k.weight)
}

// Bodies returns the key's own limits on bodies; a nil key has none.
func (k *Key) Bodies() (l config.BodyLimits) {
	if k != nil {
		l = k.bodies
	}
	return l
}

func expired(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }
