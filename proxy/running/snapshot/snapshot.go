package snapshot

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/enduser"
	"penstock/proxy/front/browser"
	"penstock/proxy/running/catalog"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/seal"
	"penstock/upstreams"
	"penstock/upstreams/engine"
)

// Snapshot contains everything that a request needs from the configuration. It is complete and
// immutable. Live state, such as health, calls in flight and used limits, is stored outside the
// snapshot.
type Snapshot struct {
	*ConfigVersion
	Config *config.File
	Routes *routing.Table
	Credentials
	Catalog *catalog.Catalog
	Models  []Model // indexed by routing.Route.Index
	Refused RefusedMembers
	Secrets Secrets
	// Floors contains the floors of the classes, in class order. It is nil if calls have no
	// classes.
	Floors []config.Percent
	// Flex is true if the configuration has classes, so that a call with the service tier flex gets
	// the last class. If Flex is false, only keys created at run time can have a class, and a call
	// with the service tier flex has its key's class.
	Flex bool
}

// RefusedMembers lists the request members that are rejected because they control engines.
type RefusedMembers struct {
	BySome *chat.RefusedMembers // members that control at least one engine
	// ByAll contains the members that every model rejects. It is used while the model of a request
	// is unknown.
	ByAll *chat.RefusedMembers
}

// Secrets protect client data.
type Secrets struct {
	Seals    *seal.Keys      // encrypts reasoning that clients store between requests
	EndUsers *enduser.Hasher // hashes the names of end users; nil if not configured
}

// BuildInput contains the inputs for building a snapshot.
type BuildInput struct {
	File        *config.File
	Plan        *upstreams.Plan
	Credentials Credentials
	Running     *Snapshot // snapshot to be replaced; nil at the start
	Queues      *queue.Queues
	Started     time.Time
	Now         time.Time
}

// New returns a snapshot for a file, with the upstreams in a plan.
func New(from *BuildInput) (*Snapshot, error) {
	f := from.File
	s := &Snapshot{
		ConfigVersion: &ConfigVersion{Version: 1, Since: from.Now},
		Config:        f, Credentials: from.Credentials,
	}
	if s.Flex = config.HasClasses(f); s.Flex || f.MakesKeys() {
		for _, class := range config.EffectiveClasses(f) {
			s.Floors = append(s.Floors, class.Floor)
		}
	}
	s.Refused.BySome = refusedMembers(from.Plan.Profiles())
	s.Refused.ByAll = s.Refused.BySome
	for i := range f.Models {
		s.Refused.ByAll = s.Refused.ByAll.WithAllowed(f.Models[i].AllowMembers...)
	}
	var old *routing.Table
	if from.Running != nil {
		s.Version, old = from.Running.Version+1, from.Running.Routes
	}
	var err error
	if s.Routes, err = routing.BuildTable(f, from.Plan, old); err != nil {
		return nil, err
	}
	for i, route := range s.Routes.Routes() {
		s.Models = append(s.Models, newModel(s, &f.Models[i], route, from.Queues))
	}
	for i := range s.Models {
		if of := f.Models[i].Shadow; of.Share > 0 {
			s.Models[i].Shadow, _ = s.ModelByID(of.Model)
		}
	}
	s.Secrets = Secrets{configuredSealKeys(f, from.Running), enduser.New(&f.EndUsers)}
	s.Catalog, err = catalog.New(f, s.Routes, from.Started)
	return s, err
}

// configuredSealKeys returns the configured seal keys. If no keys are configured, it returns keys generated
// by this process.
func configuredSealKeys(f *config.File, running *Snapshot) *seal.Keys {
	secrets := make([]string, len(f.Seal.Keys))
	for i, key := range f.Seal.Keys {
		secrets[i] = key.Value()
	}
	switch {
	case len(secrets) > 0:
		return seal.NewKeys(secrets...)
	case running != nil && running.Secrets.Seals.IsEphemeral():
		return running.Secrets.Seals
	}
	return seal.NewEphemeralKeys()
}

// refusedMembers returns the request members that control at least one engine. They are rejected
// for every engine, so that a request has the same meaning everywhere.
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

// WithCredentials returns the snapshot with the keys in f and the same version.
func (s *Snapshot) WithCredentials(c Credentials, f *config.File) *Snapshot {
	next := *s
	next.Credentials, next.Config = c, s.Config.WithKeys(f)
	return &next
}

// DiscoveredModels returns the number of discovered models per upstream.
func (s *Snapshot) DiscoveredModels() []config.DiscoveredCount {
	return config.DiscoveredModels(s.Config)
}

// AllowsAnonymous reports whether requests need no credential.
func (s *Snapshot) AllowsAnonymous() bool { return s.Config.Auth == config.AuthNone }

// LookupModel finds a model by id or alias.
func (s *Snapshot) LookupModel(name []byte) (*Model, bool) {
	r, ok := s.Routes.Lookup(name)
	if !ok {
		return nil, false
	}
	return &s.Models[r.Index], true
}

// NearestModel returns the id or alias that is most similar to an unknown name. If no name is
// similar, it returns "". It considers only models that the key may use. If key is nil, it
// considers models only if the edge requires no keys.
func (s *Snapshot) NearestModel(name string, key *auth.Key) string {
	var names []string
	for i := range s.Models {
		if m := &s.Models[i]; (key != nil || s.AllowsAnonymous()) && s.MayUse(key, m) {
			names = append(append(names, m.Config.ID), m.Config.Aliases...)
		}
	}
	return suggest.Nearest(name, names)
}

// ModelByID finds a model by id.
func (s *Snapshot) ModelByID(id string) (*Model, bool) {
	m, ok := s.LookupModel([]byte(id))
	return m, ok && m.Config.ID == id
}

// AllowsSystemInPlace reports whether the model accepts system messages within a conversation. It
// returns false for an unknown model, because the request will be rejected later.
func (s *Snapshot) AllowsSystemInPlace(name []byte) bool {
	m, ok := s.LookupModel(name)
	return ok && m.Config.SystemMessages == config.SystemMessagesInPlace
}

// HostedRefusedMembers returns the members that a model rejects because of a hosted engine. It
// returns nil for all other models. It also returns nil for an unknown model, because the request
// will be rejected later.
func (s *Snapshot) HostedRefusedMembers(name []byte) *chat.RefusedMembers {
	if m, ok := s.LookupModel(name); ok && routing.HasExternalUpstream(m.Route) {
		return m.Rules.Refuse
	}
	return nil
}

// QueueConfigs returns the queues of all models, in the form that queue.Queues.ApplyConfigs takes.
func (s *Snapshot) QueueConfigs() []queue.QueueConfig {
	uses := make([]queue.QueueConfig, 0, len(s.Models))
	for i := range s.Models {
		if m := &s.Models[i]; m.Queue != nil {
			uses = append(uses, queue.QueueConfig{
				Model: m.Config.ID, Queue: m.Queue, Depth: m.Config.Queue.Depth,
				Route: m.Route, Line: routing.TurnScheduler(m.Route), Floors: s.Floors,
			})
		}
	}
	return uses
}

// MayUse reports whether a model may answer calls made with a key. A nil key means calls without a
// key. The key must allow the model. In addition, the key's tiers must allow at least one of the
// model's upstreams, unless the model has a fallback.
func (s *Snapshot) MayUse(key *auth.Key, m *Model) bool {
	var tiers uint8
	if key != nil {
		if !key.AllowsModel(m.Config.ID) {
			return false
		}
		if key.Tiers != 0 {
			tiers = s.Keys.KeyTiers(key)
		}
	}
	return routing.IsOpenToTiers(m.Route, tiers) || len(m.Config.Fallback) > 0
}

// Authenticate checks the credential and the client certificate in a request. If the request has
// neither, it returns nil and no error. It rejects a request whose certificate and credential
// belong to different keys. It also rejects a certificate without a credential if the request comes
// from a page of a different origin.
func (s *Snapshot) Authenticate(
	h *fasthttp.RequestHeader, query []byte, from auth.ClientConnection, now time.Time,
) (*auth.Key, error) {
	asked := auth.CredentialInput{Query: query, Last: from.Last}
	for name, value := range h.All() {
		switch string(name) {
		case fasthttp.HeaderAuthorization:
			asked.Authorization.Add(value)
		case "X-Api-Key":
			asked.APIKey.Add(value)
		}
	}
	cred, present, err := auth.ExtractCredential(&asked)
	if err != nil || s.AllowsAnonymous() {
		return nil, err
	}
	shown, err := s.Keys.FindCertificateKey(from.Peer, now)
	switch {
	case err != nil:
		return nil, err
	case !present && shown != nil && browser.IsCrossOrigin(h):
		return nil, apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	case !present:
		return shown, nil
	}
	key, err := s.Keys.FindKey(cred, now)
	if err == nil && shown != nil && key.ID != shown.ID {
		return nil, auth.ErrCredentialConflict
	}
	return key, err
}
