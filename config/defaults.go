package config

import (
	"slices"
	"time"
)

// Defaults returns a File that contains all defaults. Files are decoded over it, so an absent key
// or a key without a value keeps its default.
func Defaults() *File {
	return &File{
		Listen: "127.0.0.1:4000",
		Admin:  Admin{Listen: "127.0.0.1:9090"},
		TLS:    TLS{ACME: ACME{Directory: LetsEncrypt}},
		Log:    Log{Level: "info", Format: "json", Access: true},
		Limits: Limits{
			RequestBody: 32 << 20,
			UploadBody:  100 << 20,
			UploadRate:  64 << 10,
			BodyMemory:  25,
			ReplyMemory: 15,
			Connections: 20000,
			Header:      16 << 10,
		},
		Timeouts: Timeouts{
			Connect:      secondsDuration(2),
			Answer:       secondsDuration(600),
			Total:        0,
			ClientHeader: secondsDuration(10),
			ClientBody:   secondsDuration(30),
			// longer than the usual idle timeout of load balancers (60 s), because the client or
			// balancer should close the connection first
			ClientIdle: secondsDuration(75),
			Write:      secondsDuration(30),
			Linger:     secondsDuration(5),
			Drain:      secondsDuration(60),
		},
		Stream: Stream{CommitAfter: secondsDuration(10), Keepalive: secondsDuration(15)},
		Retry:  Retry{Attempts: 2, Budget: 20},
		Fleet: Fleet{
			Lost:  StoreLostDivide,
			Store: FleetStore{Prefix: "ps", Timeout: Duration(25 * time.Millisecond)},
			Keys:  FleetKeys{Store: FleetKeyStoreRequired},
		},
		Catalog:  Catalog{Public: true},
		Watch:    true,
		OnRevoke: OnRevokeEnd,
	}
}

// These timeouts apply if first_event or idle is 0 and the engine does not report its progress.
const (
	FirstEventTimeoutWithoutProgress = Duration(120 * time.Second)
	IdleTimeoutWithoutProgress       = Duration(60 * time.Second)
)

// SetDefaults sets the defaults of an entry in keys before it is read.
func (k *Key) SetDefaults() {
	active := true
	*k = Key{Models: []string{"*"}, Operations: Operations(), Active: &active, Weight: 1, Limits: KeyLimits{Per: LimitPerCaller}}
}

// SetDefaults sets the default of an entry in admin.tokens before it is read: the role with the
// fewest rights.
func (t *AdminToken) SetDefaults() { *t = AdminToken{Role: AdminRoleRead} }

// SetDefaults sets the defaults of an entry in upstreams before it is read. The path and timeout of
// the probe stay empty, because the engine's profile sets them. The concurrency stays empty,
// because the engine may report it.
func (u *Upstream) SetDefaults() {
	*u = Upstream{
		Engine: EngineAuto, Weight: 1, Probe: Probe{Interval: secondsDuration(2), Fall: 3, Rise: 2}, Wake: Wake{Method: "POST"},
	}
}

// SetDefaults sets the defaults of an entry in models before it is read.
func (m *Model) SetDefaults() {
	*m = Model{Kind: ModelKindChat, Policy: PolicyLeastLoaded, PromptCache: PromptCacheShared}
}

// SetDefaults sets the defaults of an entry in discover before it is read.
func (d *ModelDiscovery) SetDefaults() { *d = ModelDiscovery{Match: "*"} }

// deriveSettings sets values that depend on other values: computed defaults, and settings that
// entries inherit from the file.
func (f *File) deriveSettings() {
	for i := range f.Keys {
		f.Keys[i].Edges = f.Fleet.EdgeCount()
	}
	for i := range f.Groups {
		f.Groups[i].Edges = f.Fleet.EdgeCount()
	}
	for i := range f.Upstreams {
		f.Upstreams[i].Edges = f.Fleet.EdgeCount()
		of := func(d ModelDiscovery) bool { return d.Upstream == f.Upstreams[i].Name }
		f.Upstreams[i].Lists = slices.ContainsFunc(f.Discover, of)
	}
	for i := range f.Models {
		m := &f.Models[i]
		for j := range m.Deployments {
			d := &m.Deployments[j]
			if d.Served == "" {
				d.Served = m.ID
			}
			if d.Tier > 0 && d.When == "" {
				d.When = DeploymentUsedWhenFull
			}
			if d.Traffic != nil {
				d.Arm = armName(m.Deployments, d)
			}
		}
		m.Deployments = expandUpstreamGroups(m.Deployments, f.Upstreams)
	}
}

// armName returns the name of a deployment's arm: the upstream, or upstream/served if another
// deployment of the model has the same upstream.
func armName(all []Deployment, d *Deployment) string {
	if slices.ContainsFunc(all, func(o Deployment) bool { return o.Upstream == d.Upstream && o.target() != d.target() }) {
		return d.Upstream + "/" + d.Served
	}
	return d.Upstream
}

// Endpoints returns the paths at which clients may call the model: the paths in the file or, by
// default, those for the model's kind. A model with the messages endpoint also has the endpoint
// that counts tokens. Not every engine supports every endpoint. The catalog lists an endpoint if at
// least one of the model's engines supports it.
func (m *Model) Endpoints() []string {
	if m.SupportedEndpoints != nil {
		return m.SupportedEndpoints
	}
	switch m.Kind {
	case ModelKindChat:
		return []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/tokenize", "/detokenize"}
	case ModelKindTranscription:
		return []string{"/v1/audio/transcriptions", "/v1/realtime"}
	case ModelKindSpeech:
		return []string{"/v1/audio/speech"}
	case ModelKindImage:
		return []string{"/v1/images/generations"}
	case ModelKindImageEdit:
		return []string{"/v1/images/edits"}
	case ModelKindEmbedding:
		return []string{"/v1/embeddings", "/v1/score", "/v1/pooling", "/tokenize", "/detokenize"}
	case ModelKindRerank:
		return []string{"/v1/rerank", "/v1/score", "/v1/classify", "/tokenize", "/detokenize"}
	}
	return nil
}

func secondsDuration(n int) Duration { return Duration(time.Duration(n) * time.Second) }
