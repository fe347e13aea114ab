package snapshot

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/auth"
	"penstock/proxy/catalog"
	"penstock/proxy/limit"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/translate/seal"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Snapshot is everything a request needs of one configuration, complete and immutable. Live state
// (health, in-flight, limits in use) is outside and found by identity.
type Snapshot struct {
	*ConfigVersion
	Config *config.File
	Routes *routing.Table
	Credentials
	Catalog *catalog.Catalog
	Models  []Model              // by routing.Route.Index
	Refused *chat.RefusedMembers // request members that steer some engine
	// RefusedByAll are those of Refused that no model lets through, for a request whose model is not
	// known yet.
	RefusedByAll *chat.RefusedMembers
	Seals        *seal.Keys // of reasoning that clients carry
}

// Source is what a snapshot is built from.
type Source struct {
	File        *config.File
	Plan        *upstreams.Plan
	Credentials Credentials
	Running     *Snapshot // the one that the new one replaces; nil: it is the first
	Queues      *limit.Queues
	Started     time.Time // when the process was
	Now         time.Time
}

// New builds a snapshot of a file over the upstreams of a plan.
func New(from *Source) (*Snapshot, error) {
	f := from.File
	s := &Snapshot{
		ConfigVersion: &ConfigVersion{Version: 1, Since: from.Now},
		Config:        f, Credentials: from.Credentials, Refused: refusedMembers(from.Plan.Profiles()),
	}
	s.RefusedByAll = s.Refused
	for i := range f.Models {
		s.RefusedByAll = s.RefusedByAll.Allow(f.Models[i].AllowMembers...)
	}
	var old *routing.Table
	if from.Running != nil {
		s.Version, old = from.Running.Version+1, from.Running.Routes
	}
	var err error
	if s.Routes, err = routing.Build(f, from.Plan, old); err != nil {
		return nil, err
	}
	for i, route := range s.Routes.Routes() {
		s.Models = append(s.Models, newModel(s, &f.Models[i], route, from.Queues))
	}
	s.Seals = sealKeys(f, from.Running)
	s.Catalog, err = catalog.New(f, s.Routes, from.Started)
	return s, err
}

// sealKeys are the file's, or those that the process has made for itself.
func sealKeys(f *config.File, running *Snapshot) *seal.Keys {
	secrets := make([]string, len(f.Seal.Keys))
	for i, key := range f.Seal.Keys {
		secrets[i] = key.Value()
	}
	switch {
	case len(secrets) > 0:
		return seal.NewKeys(secrets...)
	case running != nil && running.Seals.Private():
		return running.Seals
	}
	return seal.PrivateKeys()
}

// refusedMembers are the request members that steer any of the engines. They are refused whatever
// engine a call would go to, so that a request has the same meaning at every engine.
func refusedMembers(all *engine.Profiles) *chat.RefusedMembers {
	var out []string
	seen := map[string]bool{}
	for _, p := range all.All() {
		for _, m := range p.RefusedMembers() {
			if !seen[m] {
				seen[m] = true
				out = append(out, m)
			}
		}
	}
	return chat.NewRefusedMembers(out...)
}

// WithCredentials returns the snapshot under other keys, those of f. It is the same version.
func (s *Snapshot) WithCredentials(c Credentials, f *config.File) *Snapshot {
	next := *s
	next.Credentials, next.Config = c, s.Config.WithKeys(f)
	return &next
}

// Open reports whether requests need no credential at all.
func (s *Snapshot) Open() bool { return s.Config.Auth == config.AuthNone }

// Lookup finds a model by its id or an alias.
func (s *Snapshot) Lookup(name []byte) (*Model, bool) {
	r, ok := s.Routes.Lookup(name)
	if !ok {
		return nil, false
	}
	return &s.Models[r.Index], true
}

// ModelByID finds a model by its id.
func (s *Snapshot) ModelByID(id string) (*Model, bool) {
	m, ok := s.Lookup([]byte(id))
	return m, ok && m.Config.ID == id
}

// InPlace reports whether the model takes system messages in the middle of a conversation. It is
// false for a model that does not exist; that is refused later.
func (s *Snapshot) InPlace(name []byte) bool {
	m, ok := s.Lookup(name)
	if !ok {
		return false
	}
	switch m.Config.SystemMessages {
	case config.SystemInPlace:
		return true
	case "":
		return m.Route.Targets()[0].Upstream.Engine().SystemMessages() == config.SystemInPlace
	}
	return false
}

// QueueConfigs are the queues of the models that have one, as limit.Queues.Apply takes them.
func (s *Snapshot) QueueConfigs() []limit.QueueConfig {
	uses := make([]limit.QueueConfig, 0, len(s.Models))
	for i := range s.Models {
		if m := &s.Models[i]; m.Queue != nil {
			uses = append(uses, limit.QueueConfig{
				Model: m.Config.ID, Queue: m.Queue, Depth: m.Config.Queue.Depth,
				Route: m.Route,
			})
		}
	}
	return uses
}

// Authenticate checks the credential of a request. It returns nil without an error when there is
// none.
func (s *Snapshot) Authenticate(h *fasthttp.RequestHeader, query []byte, now time.Time) (*auth.Key, error) {
	// PeekAll's slice is good until the next PeekAll only. More than two are as wrong as two.
	var bearer [2][]byte
	n := copy(bearer[:], h.PeekAll(fasthttp.HeaderAuthorization))
	cred, present, err := auth.Extract(&auth.Request{
		Authorization: bearer[:n],
		APIKey:        h.PeekAll("X-Api-Key"),
		Query:         query,
	})
	if err != nil || !present || s.Open() {
		return nil, err
	}
	return s.Keys.Find(cred, now)
}
