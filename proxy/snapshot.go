package proxy

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/auth"
	"penstock/proxy/catalog"
	"penstock/proxy/limit"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Snapshot is everything a request needs of one configuration, complete and immutable. A request
// loads it once; a reload stores the next one. Live state (health, in-flight, limits in use) is
// outside and found by identity.
type Snapshot struct {
	*configVersion
	Config *config.File
	Routes *routing.Table
	credentials
	Catalog *catalog.Catalog
	models  []model        // by routing.Route.Index
	refused *chat.Refusals // request members that steer some engine
}

// credentials are the part of a snapshot that decides who may call. They take effect before the
// rest of a new file.
type credentials struct {
	Keys      *auth.Ring
	keyLimits limit.Bound
	hosts     []string // see ownHosts; nil with keys
	read      uint64   // number of the file that they are of, in the order of reading
	ahead     bool     // the models of their file are not in force
}

// aheadOf are the credentials of the file next while the models of s stay in force: what next takes
// from its keys counts, and what it gives them for models that it changes does not.
func (c credentials) aheadOf(s *Snapshot, next *config.File) (credentials, error) {
	ring, err := auth.NewRing(next.Keys)
	if err != nil {
		return c, err
	}
	if !s.open() {
		ring.Withhold(s.Config.ModelsOtherThan(next), s.Keys)
	}
	c.Keys, c.ahead = ring, true
	return c, nil
}

// newCredentials makes the credentials of a file that was just read.
func (e *Edge) newCredentials(f *config.File) (credentials, error) {
	ring, err := auth.NewRing(f.Keys)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{Keys: ring, keyLimits: e.keys.Bind(f.Keys)}
	if f.Auth == config.AuthNone {
		c.hosts = ownHosts(f)
	}
	return c, nil
}

// swap makes the result of next the running snapshot. It calls next with the running snapshot, one
// goroutine at a time, so that keys which another reload has just put into force are not lost.
func (e *Edge) swap(next func(running *Snapshot) *Snapshot) {
	e.swapping.Lock()
	defer e.swapping.Unlock()
	e.current.Store(next(e.current.Load()))
}

// withCredentials returns the snapshot under other keys, those of f. It is the same version.
func (s *Snapshot) withCredentials(c credentials, f *config.File) *Snapshot {
	next := *s
	next.credentials, next.Config = c, s.Config.WithKeys(f)
	return &next
}

// newSnapshot builds a snapshot of f over the upstreams of plan, for the holders of c. keep is the
// running one or nil.
func (e *Edge) newSnapshot(f *config.File, plan *upstreams.Plan, c credentials, keep *Snapshot) (*Snapshot, error) {
	s := &Snapshot{configVersion: &configVersion{Version: 1, since: e.now()}, Config: f, credentials: c, refused: refusedMembers(plan.Profiles())}
	var old *routing.Table
	if keep != nil {
		s.Version, old = keep.Version+1, keep.Routes
	}
	var err error
	if s.Routes, err = routing.Build(f, plan, old); err != nil {
		return nil, err
	}
	for i, route := range s.Routes.Routes() {
		s.models = append(s.models, e.newModel(s, &f.Models[i], route))
	}
	s.Catalog, err = catalog.New(f, s.Routes, e.started)
	return s, err
}

// open reports whether requests need no credential at all.
func (s *Snapshot) open() bool { return s.Config.Auth == config.AuthNone }

// lookup finds a model by its id or an alias.
func (s *Snapshot) lookup(name []byte) (*model, bool) {
	r, ok := s.Routes.Lookup(name)
	if !ok {
		return nil, false
	}
	return &s.models[r.Index], true
}

// model finds a model by its id.
func (s *Snapshot) model(id string) (*model, bool) {
	m, ok := s.lookup([]byte(id))
	return m, ok && m.config.ID == id
}

// authenticate checks the credential of a request. It returns nil without an error when there is
// none.
func (s *Snapshot) authenticate(h *fasthttp.RequestHeader, query []byte, now time.Time) (*auth.Key, error) {
	// PeekAll's slice is good until the next PeekAll only. More than two are as wrong as two.
	var bearer [2][]byte
	n := copy(bearer[:], h.PeekAll(fasthttp.HeaderAuthorization))
	cred, present, err := auth.Extract(&auth.Request{
		Authorization: bearer[:n],
		APIKey:        h.PeekAll("X-Api-Key"),
		Query:         query,
	})
	if err != nil || !present || s.open() {
		return nil, err
	}
	return s.Keys.Find(cred, now)
}
