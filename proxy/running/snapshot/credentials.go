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
	Keys      *auth.KeyRing
	KeyLimits limit.BoundKeys
	*ClientCredentialSources
	Hosts      []string // see browser.OwnHostNames
	FileNumber uint64   // number of the file, in the order in which files were read
	Ahead      bool     // the models of the file have not been applied yet

	SharedNumber uint64
	// The models that the file changes; set if Ahead is true.
	changedModels []string

	ExpiryByKey map[string]time.Time // expiry times, keyed by key id; omits keys that do not expire
}

// StoreKeys are the keys in the fleet's store. A newer set has a higher number.
type StoreKeys struct {
	Keys   []config.Key
	Number uint64
}

// ClientCredentialSources are the inputs of Credentials other than the file. They survive reloads.
type ClientCredentialSources struct {
	Limits *limit.KeyUsages
	Issued *jwks.KeySetKeeper
	// Whether the fleet's store also contains keys. As long as SharedNumber is 0, these keys are
	// unknown.
	HasSharedStore bool
}

func (o *ClientCredentialSources) newKeyRing(f *config.File, all []config.Key, shared *StoreKeys) (*auth.KeyRing, error) {
	return auth.NewKeyRing(all, &auth.IssuerOptions{
		Config: f.Issuers, Source: func(url string) auth.KeySet { return o.Issued.Source(url) }, ClientCA: f.TLS.ClientCAs,
		Unread: o.HasSharedStore && shared.Number == 0,
	})
}

// NewCredentials returns credentials with the keys in a file and the shared keys. It preserves the
// state of the key limits.
func NewCredentials(f *config.File, shared *StoreKeys, o *ClientCredentialSources) (Credentials, error) {
	all := mergeSharedKeys(f, shared.Keys)
	ring, err := o.newKeyRing(f, all, shared)
	if err != nil {
		return Credentials{}, err
	}
	ends := map[string]time.Time{}
	for i := range all {
		if end := all[i].ExpiresAt(); !end.IsZero() {
			ends[all[i].ID] = end
		}
	}
	return Credentials{
		ExpiryByKey: ends,
		Keys:        ring, KeyLimits: o.Limits.Bind(all, f.Groups), ClientCredentialSources: o, Hosts: browser.OwnHostNames(f), SharedNumber: shared.Number,
	}, nil
}

// mergeSharedKeys returns the keys in a file and the shared keys. If an id or a hash occurs twice,
// the file's key takes precedence over shared keys. Among shared keys, the first takes precedence.
func mergeSharedKeys(f *config.File, shared []config.Key) []config.Key {
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
			k.Edges = f.Fleet.EdgeCount()
			all = append(all, k)
		}
	}
	return all
}

// ForRunningModels returns the credentials from the file next for use with the models in s. Rights
// that next removes are removed immediately. If next changes a model, new rights to that model are
// withheld.
func (c Credentials) ForRunningModels(s *Snapshot, next *config.File, shared *StoreKeys, o *ClientCredentialSources) (Credentials, error) {
	c.Ahead = true
	if !s.AllowsAnonymous() {
		c.changedModels = s.Config.ChangedModels(next)
	}
	if len(c.changedModels) == 0 { // no rights are withheld, so the existing ring can be used
		return c, nil
	}
	ring, err := o.newKeyRing(next, mergeSharedKeys(next, shared.Keys), shared)
	if err != nil {
		return c, err
	}
	ring.WithholdModels(c.changedModels, s.Keys)
	c.Keys = ring
	return c, nil
}

// WithSharedKeys returns the snapshot with different shared keys.
func (s *Snapshot) WithSharedKeys(shared *StoreKeys, o *ClientCredentialSources) (*Snapshot, error) {
	c, err := NewCredentials(s.Config, shared, o)
	if err != nil {
		return nil, err
	}
	c.Keys.WithholdModels(s.changedModels, s.Keys)
	c.FileNumber, c.Ahead, c.changedModels = s.FileNumber, s.Ahead, s.changedModels
	return s.WithCredentials(c, s.Config), nil
}

// KeyLimiter returns the limits for a key or token, or nil if a reload has removed the key. If the
// issuer is configured with per: key, a token has the limits of its template.
func (c *Credentials) KeyLimiter(key *auth.Key) *limit.KeyLimiter {
	switch {
	case key.Template == nil:
		return c.KeyLimits[key.ID]
	case key.Template.Limits.Per == config.LimitPerKey:
		return c.KeyLimits[key.Template.ID]
	}
	return c.Limits.TokenKey(key.ID, key.Template, c.KeyLimits)
}
