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

// Credentials decide who may call. Credentials of a new file take effect before its other settings.
type Credentials struct {
	Keys       *auth.Ring
	KeyLimits  limit.Bound
	*Sources            // the inputs that they were built from
	Hosts      []string // see browser.OwnHosts
	FileNumber uint64   // the number of the file, in reading order
	Ahead      bool     // the file's models are not in force yet

	SharedNumber uint64   // the number of the shared keys
	changing     []string // models that the file changes, if Ahead

	Ends map[string]time.Time // when each key expires, by id; only for keys that expire
}

// SharedKeys are the keys in the fleet's store. Only a complete set with a higher number replaces
// them.
type SharedKeys struct {
	Keys   []config.Key
	Number uint64
}

// Sources are the inputs of credentials other than the file. They outlive all reloads.
type Sources struct {
	Limits *limit.Keys
	Issued *jwks.Keeper
	Shared bool // the fleet's store also has keys, which are unknown until they have a number
}

func (o *Sources) ring(f *config.File, all []config.Key, shared *SharedKeys) (*auth.Ring, error) {
	return auth.NewRing(all, &auth.Issuers{
		Config: f.Issuers, Source: func(url string) auth.KeySet { return o.Issued.Source(url) }, ClientCA: f.TLS.ClientCAs,
		Unread: o.Shared && shared.Number == 0,
	})
}

// NewCredentials builds credentials from a file that was just read and from the shared keys. Keys
// that stay keep the state of their limits.
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

// withShared returns the file's keys and the shared keys. If an id or a hash appears twice, the
// file's key takes precedence, and otherwise the first shared key.
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

// AheadOf returns the credentials of the file next for the time in which the models of s stay in
// force. Rights that next removes from its keys end at once. Rights to models that next changes are
// withheld.
func (c Credentials) AheadOf(s *Snapshot, next *config.File, shared *SharedKeys, o *Sources) (Credentials, error) {
	c.Ahead = true
	if !s.Open() {
		c.changing = s.Config.ModelsOtherThan(next)
	}
	if len(c.changing) == 0 { // no right is withheld, so a second ring would equal the first
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

// WithShared returns the snapshot with other shared keys in addition to the keys of its file.
func (s *Snapshot) WithShared(shared *SharedKeys, o *Sources) (*Snapshot, error) {
	c, err := NewCredentials(s.Config, shared, o)
	if err != nil {
		return nil, err
	}
	c.Keys.Withhold(s.changing, s.Keys)
	c.FileNumber, c.Ahead, c.changing = s.FileNumber, s.Ahead, s.changing
	return s.WithCredentials(c, s.Config), nil
}

// LimitsOf returns the limits of a key or of a token. It returns nil if the configuration no longer
// has the key. A token that shares its template's limits gets the limits of the template's entry.
func (c *Credentials) LimitsOf(key *auth.Key) *limit.Key {
	switch {
	case key.Template == nil:
		return c.KeyLimits[key.ID]
	case key.Template.Limits.Per == config.PerKey:
		return c.KeyLimits[key.Template.ID]
	}
	return c.Limits.OfToken(key.ID, key.Template, c.KeyLimits)
}
