package snapshot

import (
	"slices"

	"penstock/config"
	"penstock/proxy/auth"
	"penstock/proxy/browser"
	"penstock/proxy/limit"
)

// Credentials are the part of a snapshot that decides who may call. They take effect before the
// rest of a new file.
type Credentials struct {
	Keys       *auth.Ring
	KeyLimits  limit.Bound
	Hosts      []string // see browser.OwnHosts
	FileNumber uint64   // of the file that they are of, in the order of reading
	Ahead      bool     // the models of their file are not in force

	SharedNumber uint64   // of the keys beside the file's
	changing     []string // models that are to change with the file, if they are ahead
}

// SharedKeys are keys of the fleet's store. They are replaced as a whole, by ones of a higher
// number.
type SharedKeys struct {
	Keys   []config.Key
	Number uint64
}

// NewCredentials makes the credentials of a file that was just read, and of keys beside it. They
// keep the limits' state of the keys that stay.
func NewCredentials(f *config.File, shared *SharedKeys, keys *limit.Keys) (Credentials, error) {
	all := withShared(f, shared.Keys)
	ring, err := auth.NewRing(all)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{Keys: ring, KeyLimits: keys.Bind(all), Hosts: browser.OwnHosts(f), SharedNumber: shared.Number}, nil
}

// withShared returns the keys of the file and those beside it. Where an id or a hash is there twice
// the file's counts, and of two others the first.
func withShared(f *config.File, shared []config.Key) []config.Key {
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
			k.Edges = f.Fleet.Edges
			all = append(all, k)
		}
	}
	return all
}

// AheadOf are the credentials of the file next while the models of s stay in force: what next takes
// from its keys counts, and what it gives them for models that it changes does not.
func (c Credentials) AheadOf(s *Snapshot, next *config.File, shared *SharedKeys) (Credentials, error) {
	ring, err := auth.NewRing(withShared(next, shared.Keys))
	if err != nil {
		return c, err
	}
	if !s.Open() {
		c.changing = s.Config.ModelsOtherThan(next)
		ring.Withhold(c.changing, s.Keys)
	}
	c.Keys, c.Ahead = ring, true
	return c, nil
}

// WithShared returns the snapshot with other keys beside those of its file.
func (s *Snapshot) WithShared(shared *SharedKeys, keys *limit.Keys) (*Snapshot, error) {
	c, err := NewCredentials(s.Config, shared, keys)
	if err != nil {
		return nil, err
	}
	c.Keys.Withhold(s.changing, s.Keys)
	c.FileNumber, c.Ahead, c.changing = s.FileNumber, s.Ahead, s.changing
	return s.WithCredentials(c, s.Config), nil
}
