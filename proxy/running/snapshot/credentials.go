package snapshot

import (
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/jwks"
	"penstock/proxy/access/limit"
	"penstock/proxy/front/browser"
)

// Credentials determine which requests are authenticated. The credentials of a new file are applied
// before its other settings.
type Credentials struct {
	Keys      *auth.Ring
	KeyLimits limit.Bound
	*Sources
	Hosts      []string // see browser.OwnHosts
	FileNumber uint64   // number of the file in the order in which files were read
	Ahead      bool     // whether the models of the file have not been applied yet

	SharedNumber uint64
	changing     []string // if Ahead is true: the models that the file changes

	Ends map[string]time.Time // when each key with an expiry expires, by id
}

// SharedKeys are the keys in the fleet's store. A newer set has a higher number.
type SharedKeys struct {
	Keys   []config.Key
	Number uint64
}

// Sources are the inputs of Credentials in addition to the file. They survive reloads.
type Sources struct {
	Limits *limit.Keys
	Issued *jwks.Keeper
	Shared bool // whether the fleet's store has keys too, which are unknown as long as their number is 0
}

func (o *Sources) ring(f *config.File, all []config.Key, shared *SharedKeys) (*auth.Ring, error) {
	return auth.NewRing(all, &auth.Issuers{
		Config: f.Issuers, Source: func(url string) auth.KeySet { return o.Issued.Source(url) }, ClientCA: f.TLS.ClientCAs,
		Unread: o.Shared && shared.Number == 0,
	})
}

// NewCredentials returns credentials with the keys of a file and the shared keys. The state of
// their limits is preserved.
func NewCredentials(f *config.File, shared *SharedKeys, o *Sources) (Credentials, error) {
	all := withShared(f, shared.Keys)
	ring, err := o.ring(f, all, shared)
	if err != nil {
		return Credentials{}, err
	}
	ends := map[string]time.Time{}
	for i := range all {
		if end := all[i].Ends(); !end.IsZero() {
			ends[all[i].ID] = end
		}
	}
	return Credentials{
		Ends: ends,
		Keys: ring, KeyLimits: o.Limits.Bind(all, f.Groups), Sources: o, Hosts: browser.OwnHosts(f), SharedNumber: shared.Number,
	}, nil
}

// withShared returns the keys of a file and the shared keys. If an id or a hash occurs twice, the
// file's key takes precedence over shared keys, and the first shared key over later ones.
func withShared(f *config.File, shared []config.Key) []config.Key {
	if len(shared) == 0 {
		return f.Keys
	}
	all, ids, hashes := slices.Clone(f.Keys), map[string]bool{}, map[string]bool{}
	known := func(k *config.Key) bool {
		return ids[k.ID] || slices.ContainsFunc(k.Hash, func(h config.KeyHash) bool { return hashes[h.Hash] })
	}
	add := func(k *config.Key) {
		ids[k.ID] = true
		for _, h := range k.Hash {
			hashes[h.Hash] = true
		}
	}
	for i := range f.Keys {
		add(&f.Keys[i])
	}
	for i := range shared {
		if k := shared[i]; !known(&k) {
			add(&k)
			k.Edges = f.Fleet.Parts()
			all = append(all, k)
		}
	}
	return all
}

// AheadOf returns the credentials of the file next for use with the models of s. If next removes
// rights, this takes effect immediately. Rights to models that next changes are withheld.
func (c Credentials) AheadOf(s *Snapshot, next *config.File, shared *SharedKeys, o *Sources) (Credentials, error) {
	c.Ahead = true
	if !s.Open() {
		c.changing = s.Config.ModelsOtherThan(next)
	}
	if len(c.changing) == 0 { // no right is withheld, so the existing ring can be used
		return c, nil
	}
	ring, err := o.ring(next, withShared(next, shared.Keys), shared)
	if err != nil {
		return c, err
	}
	ring.Withhold(c.changing, s.Keys)
	c.Keys = ring
	return c, nil
}

// WithShared returns the snapshot with different shared keys.
func (s *Snapshot) WithShared(shared *SharedKeys, o *Sources) (*Snapshot, error) {
	c, err := NewCredentials(s.Config, shared, o)
	if err != nil {
		return nil, err
	}
	c.Keys.Withhold(s.changing, s.Keys)
	c.FileNumber, c.Ahead, c.changing = s.FileNumber, s.Ahead, s.changing
	return s.WithCredentials(c, s.Config), nil
}

// LimitsOf returns the limits of a key or a token, or nil if a reload has removed the key. If the
// issuer has the setting per: key, a token has the limits of its template.
func (c *Credentials) LimitsOf(key *auth.Key) *limit.Key {
	switch {
	case key.Template == nil:
		return c.KeyLimits[key.ID]
	case key.Template.Limits.Per == config.PerKey:
		return c.KeyLimits[key.Template.ID]
	}
	return c.Limits.OfToken(key.ID, key.Template, c.KeyLimits)
}
