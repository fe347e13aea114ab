package snapshot

import (
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
}

// NewCredentials makes the credentials of a file that was just read. They keep the limits' state of
// the keys that stay.
func NewCredentials(f *config.File, keys *limit.Keys) (Credentials, error) {
	ring, err := auth.NewRing(f.Keys)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{Keys: ring, KeyLimits: keys.Bind(f.Keys), Hosts: browser.OwnHosts(f)}, nil
}

// AheadOf are the credentials of the file next while the models of s stay in force: what next takes
// from its keys counts, and what it gives them for models that it changes does not.
func (c Credentials) AheadOf(s *Snapshot, next *config.File) (Credentials, error) {
	ring, err := auth.NewRing(next.Keys)
	if err != nil {
		return c, err
	}
	if !s.Open() {
		ring.Withhold(s.Config.ModelsOtherThan(next), s.Keys)
	}
	c.Keys, c.Ahead = ring, true
	return c, nil
}
