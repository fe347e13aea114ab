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

// Snapshot is everything a request needs of one configuration, complete and immutable. A request loads it once; a reload
// stores the next one. Live state (health, in-flight, limits in use) is outside and found by identity.
type Snapshot struct {
	*generation
	Config    *config.File
	Routes    *routing.Table
	Keys      *auth.Ring
	Catalog   *catalog.Catalog
	models    []model // by routing.Route.Index
	keyLimits limit.Bound
	refused   *chat.Refusals // request members that steer some engine
	hosts     []string       // see ownHosts; nil with keys
}

// newSnapshot builds a snapshot of f over the upstreams of plan. keep is the running one or nil.
func (e *Edge) newSnapshot(f *config.File, plan *upstreams.Plan, keep *Snapshot) (*Snapshot, error) {
	s := &Snapshot{generation: &generation{Version: 1, since: e.now()}, Config: f, refused: refusedMembers(plan.Profiles())}
	if s.open() {
		s.hosts = ownHosts(f)
	}
	var old *routing.Table
	if keep != nil {
		s.Version, old = keep.Version+1, keep.Routes
	}
	var err error
	if s.Routes, err = routing.Build(f, plan, old); err != nil {
		return nil, err
	}
	if s.Keys, err = auth.NewRing(f.Keys); err != nil {
		return nil, err
	}
	for i, route := range s.Routes.Routes() {
		s.models = append(s.models, e.newModel(s, &f.Models[i], route))
	}
	s.keyLimits = e.keys.Bind(f.Keys)
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

// authenticate checks the credential of a request. It returns nil without an error when there is none.
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
