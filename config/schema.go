package config

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
)

// File is one configuration, defaults filled in and references resolved. It is read-only once Load
// or Parse has returned it; everything that serves requests is built from it.
type File struct {
	Listen    string     `yaml:"listen"`
	Admin     Admin      `yaml:"admin"`
	TLS       TLS        `yaml:"tls"`
	Log       Log        `yaml:"log"`
	Tracing   Tracing    `yaml:"tracing"`
	Strict    bool       `yaml:"strict"`
	Watch     bool       `yaml:"watch"` // files that change are read again by themselves
	Auth      string     `yaml:"auth"`  // "" (keys) or "none"
	Limits    Limits     `yaml:"limits"`
	Timeouts  Timeouts   `yaml:"timeouts"`
	Stream    Stream     `yaml:"stream"`
	Retry     Retry      `yaml:"retry"`
	OnRevoke  string     `yaml:"on_revoke"` // end | abort
	CORS      CORS       `yaml:"cors"`
	Catalog   Catalog    `yaml:"catalog"`
	Responses Responses  `yaml:"responses"`
	Images    Images     `yaml:"images"`
	Fleet     Fleet      `yaml:"fleet"`
	Ledger    Ledger     `yaml:"ledger"`
	EndUsers  EndUsers   `yaml:"end_users"`
	Seal      Seal       `yaml:"seal"`
	KeysFile  string     `yaml:"keys_file"` // its keys are appended to Keys; joined with the file's folder
	Classes   []Class    `yaml:"classes"`   // of calls, in the order in which they are served; empty: interactive, batch
	Keys      []Key      `yaml:"keys"`      // API keys of clients.
	Issuers   []Issuer   `yaml:"issuers"`
	Engines   []Engine   `yaml:"engines"`
	Upstreams []Upstream `yaml:"upstreams"` // Engines, by the address at which each is asked.
	Models    []Model    `yaml:"models"`    // Models that clients can ask for.
	Discover  []Discover `yaml:"discover"`

	// LeftOut counts the models that are listed and not published, by upstream.
	LeftOut map[string]int `yaml:"-"`

	origin *origin // where the values came from; nil in a File that was made by hand
}

// AuthNone is the value of File.Auth that switches credentials off; it is refused off loopback.
const AuthNone = "none"

// Admin is the operator's listener. An empty Listen switches it off.
type Admin struct {
	Listen string   `yaml:"listen"` // Address of the operator's listener; empty: none.
	Token  Secret   `yaml:"token"`
	TLS    AdminTLS `yaml:"tls"`
}

// AdminTLS holds the paths of the certificate pair of the operator's listener. They are joined with
// the file's folder as those of TLS are.
type AdminTLS struct {
	Cert string `yaml:"cert"` // File with the listener's certificate and those above it; empty: it speaks plain HTTP.
	Key  string `yaml:"key"`  // File with its key.
}

// Enabled reports whether the operator's listener speaks TLS.
func (t AdminTLS) Enabled() bool { return t.Cert != "" }

// TLS holds the paths of the edge's own certificate pair. They are written relative to the file's
// folder; Load and Parse join them with it.
type TLS struct {
	Cert string `yaml:"cert"` // File with the edge's certificate and those above it.
	Key  string `yaml:"key"`  // File with its key.
	// ClientCA is a file with the certificates that sign those of clients (keys[].certificate)
	ClientCA string `yaml:"client_ca"`
	ACME     ACME   `yaml:"acme"`

	ClientCAs []byte `yaml:"-"` // the content of ClientCA
}

// Enabled reports whether the public listener speaks TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || t.ACME.Enabled() }

// ACME has the edge obtain and renew its certificates itself, one for each domain, in the place of
// a pair in files.
type ACME struct {
	Domains []string `yaml:"domains"` // the names by which clients reach the edge
	Email   string   `yaml:"email"`   // of the account: some directories write to it
	// Directory is the URL of the authority's ACME directory
	Directory string `yaml:"directory"`
	Folder    string `yaml:"folder"` // where the account's key and the certificates are kept
	// HTTP is the address of a second listener, which answers HTTP-01 challenges and sends browsers to
	// https; left out, TLS-ALPN-01 is answered on the main one
	HTTP        string  `yaml:"http"`
	AcceptTerms bool    `yaml:"accept_terms"` // of the authority's service: without it there is no account
	CA          string  `yaml:"ca"`           // file with the certificates that sign a private directory's
	EAB         ACMEEAB `yaml:"eab"`

	CAs []byte `yaml:"-"` // the content of CA
}

// ACMEEAB binds the account to one that the authority knows already (external account binding).
type ACMEEAB struct {
	KID string `yaml:"kid"` // what the authority calls the account
	Key Secret `yaml:"key"` // base64url, as the authority gives it
}

// Enabled reports whether the edge obtains its certificates itself.
func (a *ACME) Enabled() bool { return len(a.Domains) > 0 }

// MACKey returns the key of the external account binding; nil without one.
func (e *ACMEEAB) MACKey() ([]byte, error) {
	if e.Key == "" {
		return nil, nil
	}
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(e.Key.Value(), "="))
}

// Log says what is written to standard error.
type Log struct {
	Level        string `yaml:"level"`  // debug | info | warn | error
	Format       string `yaml:"format"` // json | console
	Access       bool   `yaml:"access"`
	DebugHeaders bool   `yaml:"debug_headers"`
	Client       bool   `yaml:"client"` // the peer's address in access lines
}

// Catalog says who may read the list of models.
type Catalog struct {
	Public bool `yaml:"public"` // false: only with a key
}

// Tracing says where spans go, and of which calls.
type Tracing struct {
	OTLP string `yaml:"otlp"` // OTLP/HTTP endpoint for traces, such as http://127.0.0.1:4318; empty: off
	// Sample is the share of the traces that begin here and are recorded; a client's traceparent
	// decides of its own. Left out: OTEL_TRACES_SAMPLER, or all of them.
	Sample *Percent `yaml:"sample"`
}

// Limits bound what clients may cost before they are admitted.
type Limits struct {
	RequestBody Bytes   `yaml:"request_body"` // JSON bodies
	UploadBody  Bytes   `yaml:"upload_body"`  // multipart bodies
	UploadRate  Bytes   `yaml:"upload_rate"`  // bytes per second, over 10 s
	BodyMemory  Percent `yaml:"body_memory"`  // share of the memory limit that bodies may hold
	ReplyMemory Percent `yaml:"reply_memory"` // share of the memory limit that engines' replies may hold
	// How many connections clients may have at once. At the bound an idle one is closed for each new
	// one: one that has shown no key before one that has, of the address that holds most of them.
	Connections int `yaml:"connections"`
	// How many of them one client address may have, of IPv6 one /64. 0 sets no bound of its own, as is
	// right behind a balancer, whose address all clients have.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// whole request head: its line, its fields, the empty line at its end, and empty ones before it
	Header Bytes `yaml:"header"`
}

// Timeouts are the clocks of a request. Zero is "no limit" for Total, "at once" for Linger and
// Drain, and leaves FirstEvent and Idle to what the engine shows of its progress; it is refused
// elsewhere.
type Timeouts struct {
	Connect Duration `yaml:"connect"`
	// request written to the first event of a stream, header included; 0: by the engine's progress
	FirstEvent   Duration `yaml:"first_event"`
	Answer       Duration `yaml:"answer"`        // request written to the whole of a non-stream reply
	Idle         Duration `yaml:"idle"`          // silence between reads of a reply; 0: likewise
	Total        Duration `yaml:"total"`         // the whole call; 0: off
	ClientHeader Duration `yaml:"client_header"` // whole request head
	ClientBody   Duration `yaml:"client_body"`   // silence while a body comes
	ClientIdle   Duration `yaml:"client_idle"`   // between requests of a connection
	Write        Duration `yaml:"write"`         // one write to a client
	Linger       Duration `yaml:"linger"`        // keep accepting after SIGTERM
	Drain        Duration `yaml:"drain"`         // let calls end after SIGTERM
}

// ModelTimeouts are the clocks that a model may set for itself; nil keeps the file's.
type ModelTimeouts struct {
	Connect    *Duration `yaml:"connect"`     // timeouts.connect for this model.
	FirstEvent *Duration `yaml:"first_event"` // timeouts.first_event for this model.
	Answer     *Duration `yaml:"answer"`      // timeouts.answer for this model.
	Idle       *Duration `yaml:"idle"`        // timeouts.idle for this model.
	Total      *Duration `yaml:"total"`       // timeouts.total for this model.
	Write      *Duration `yaml:"write"`       // timeouts.write for this model.
}

// Over returns t with the clocks that m sets.
func (m ModelTimeouts) Over(t Timeouts) Timeouts {
	for _, c := range []struct {
		from *Duration
		to   *Duration
	}{
		{m.Connect, &t.Connect},
		{m.FirstEvent, &t.FirstEvent},
		{m.Answer, &t.Answer},
		{m.Idle, &t.Idle},
		{m.Total, &t.Total},
		{m.Write, &t.Write},
	} {
		if c.from != nil {
			*c.to = *c.from
		}
	}
	return t
}

// Stream holds the two clocks toward a waiting client; zero switches either off.
type Stream struct {
	CommitAfter Duration `yaml:"commit_after"` // How long a stream's status waits for its first event.
	Keepalive   Duration `yaml:"keepalive"`    // Silence after which a stream gets a sign of life; 0: none.
	// of whole answers in JSON: silence after which white space is sent; 0: never
	WholeKeepalive Duration `yaml:"whole_keepalive"`
}

// Retry bounds what a failing fleet may be asked again.
type Retry struct {
	Attempts int     `yaml:"attempts"` // 1 or 2 sends a call
	Budget   Percent `yaml:"budget"`   // of the calls of the last 10 s, at least 3
}

// CORS lists the origins that browsers may call from; empty: none.
type CORS struct {
	Origins []string `yaml:"origins"`
}

// Responses are the settings of /v1/responses.
type Responses struct {
	WebSocket bool `yaml:"websocket"` // calls over WebSocket, beside POST; an extension of the contract
}

// Images is the allow-list of hosts for https image URLs; empty: any name, never an IP literal.
type Images struct {
	Hosts []string `yaml:"hosts"`
}

// Seal holds the keys by which reasoning is sealed that clients carry without reading it: the first
// seals, all open. Without any, one is made at the start.
type Seal struct {
	Keys []Secret `yaml:"keys"` // 32 bytes in base64 each: the first seals, all open.
}

// Upstream is one engine process, or one name that resolves to several.
type Upstream struct {
	Name        string      `yaml:"name"` // Name of the upstream, which deployments, logs and pages have.
	URL         string      `yaml:"url"`  // base URL without /v1; Load and Parse drop a trailing slash
	Tags        []string    `yaml:"tags"` // Words by which deployments and drain take several: tag:h100.
	Engine      string      `yaml:"engine"`
	APIKey      Secret      `yaml:"api_key"`
	Concurrency Concurrency `yaml:"concurrency"`
	Weight      float64     `yaml:"weight"` // default 1
	Probe       Probe       `yaml:"probe"`
	TLS         UpstreamTLS `yaml:"tls"`
	Native      []string    `yaml:"native"` // messages, responses
	// Priorities has the engine told the class of each call: the number of its place among `classes`,
	// in the order that the engine's profile names. The engine has to be started for it.
	Priorities bool `yaml:"priorities"`
	// Prefill is proven where the engine, with its models' templates, goes on with an answer that the
	// request has begun; empty: by engine.
	Prefill string `yaml:"prefill"`
	// such as 30s: every address of the url's name is an upstream of its own; srv:NAME: every SRV
	// record
	Resolve Resolve `yaml:"resolve"`
	// which pods of a cluster are its engines, in place of what the url's name resolves to
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// how many models an engine that loads on demand keeps in memory: calls for others wait for their
	// turn; the engine's own number, where it tells one, if that is smaller; 0: no turns
	Residents int `yaml:"residents"`
	// External upstreams are not of the house: only calls of keys with tiers go there.
	External bool `yaml:"external"`
	// a request that starts the engine when a call finds none of its model's engines
	Wake  Wake `yaml:"wake"`
	Edges int  `yaml:"-"` // those that share its slots: Fleet.Edges
	Lists bool `yaml:"-"` // its models are published by Discover
}

// Discovery says where the upstream's engines are found, in words; empty: its url is the engine.
func (u *Upstream) Discovery() string {
	k, ports := &u.Kubernetes, ""
	if len(k.Ports) > 0 {
		ports = fmt.Sprintf(", ports %v", k.Ports)
	}
	where := "the edge's own namespace"
	if k.Namespace != "" {
		where = "namespace " + k.Namespace
	}
	switch {
	case k.Pool != "":
		return fmt.Sprintf("the pods of InferencePool %s in %s%s", k.Pool, where, ports)
	case k.Set():
		return fmt.Sprintf("the pods with %s in %s%s", k.Selector, where, ports)
	case u.Resolve.SRV != "":
		return fmt.Sprintf("the SRV records of %s, looked up every %s", u.Resolve.SRV, u.Resolve.Every)
	case u.Resolve.Every > 0:
		return fmt.Sprintf("the addresses of %s, looked up every %s", u.URL, u.Resolve.Every)
	}
	return ""
}

// MountedAccount is where Kubernetes mounts the service account of a pod.
const MountedAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Kubernetes says which pods are an upstream's engines. The upstream's url says by which scheme,
// name and port they are asked.
type Kubernetes struct {
	Selector  string `yaml:"selector"`  // of labels, as kubectl takes it: app=vllm,tier!=test
	Pool      string `yaml:"pool"`      // in its place the name of an InferencePool, which has a selector and ports
	Namespace string `yaml:"namespace"` // default: the edge's own
	Ports     []int  `yaml:"ports"`     // on which the pods' engines listen; default: the url's port
	Server    string `yaml:"server"`    // of the API; default: that of the cluster in which the edge runs
	Account   string `yaml:"account"`   // folder with token, ca.crt and namespace; default: the mounted service account's
}

// Set reports whether the file says anything of Kubernetes.
func (k *Kubernetes) Set() bool {
	return k.Selector != "" || k.Pool != "" || k.Namespace != "" || len(k.Ports) > 0 || k.Server != "" || k.Account != ""
}

// String names what is asked for, and where; two that differ ask for other pods.
func (k *Kubernetes) String() string {
	if !k.Set() {
		return ""
	}
	return fmt.Sprintf("%q", []string{k.Selector, k.Pool, k.Namespace, fmt.Sprint(k.Ports), k.Server, k.Account})
}

// Wake is the request that wakes an engine which sleeps or was stopped: /wake_up of vLLM, or a
// script of the operator's. It has no body, and nothing of a client's.
type Wake struct {
	URL    string   `yaml:"url"`    // empty: it is not woken
	Method string   `yaml:"method"` // GET, POST or PUT; default POST
	After  Duration `yaml:"after"`  // how long the engine must have been away
}

// Concurrency is written as one number (one shared pool), as {shared, fleet}, or as a map of
// separate pools; zero value: what the engine reports.
type Concurrency struct {
	Shared int `yaml:"shared"` // one number: every pool draws from it; 0 when separate or unset
	Text   int `yaml:"text"`   // Slots of all other calls; sound in a chat, as input_audio, counts as text.
	Vision int `yaml:"vision"` // Slots of calls with images, whatever else is in them.
	Audio  int `yaml:"audio"`  // Slots of transcriptions and speech.
	// Fleet is exact where the edges of a fleet hold the one shared number together, by its store
	Fleet string `yaml:"fleet"`
}

// Exact reports whether the edges of a fleet hold the number together to the last one.
func (c Concurrency) Exact() bool { return c.Fleet == FleetExact && c.Shared > 0 }

// FleetExact is the value of Concurrency.Fleet.
const FleetExact = "exact"

// Set reports whether the file gives a concurrency at all.
func (c Concurrency) Set() bool { return c != Concurrency{} }

// Probe says how an upstream's health is asked for; zero members take the engine profile's value.
type Probe struct {
	Path     string   `yaml:"path"`
	Interval Duration `yaml:"interval"` // Time between two probes.
	Timeout  Duration `yaml:"timeout"`
	Fall     int      `yaml:"fall"`
	Rise     int      `yaml:"rise"`
}

// UpstreamTLS says how an https upstream is verified and what the edge shows it. Paths are joined
// with the file's folder as those of TLS are.
type UpstreamTLS struct {
	CA       string `yaml:"ca"`       // File with the certificates that sign the server's; empty: those of the system.
	Cert     string `yaml:"cert"`     // File with the certificate that the edge shows.
	Key      string `yaml:"key"`      // File with the key of that certificate.
	Insecure bool   `yaml:"insecure"` // true: the server's certificate is not verified.
}

// Model is one public model.
type Model struct {
	ID          string       `yaml:"id"` // Name that clients ask for and answers carry.
	Kind        string       `yaml:"kind"`
	Aliases     []string     `yaml:"aliases"`
	Deployments []Deployment `yaml:"deployments"` // Upstreams that serve the model.
	Policy      string       `yaml:"policy"`
	Queue       Queue        `yaml:"queue"`
	// Reserve is a part of each upstream's slots, rounded down, for calls of the first class alone.
	Reserve  Percent       `yaml:"reserve"`
	Timeouts ModelTimeouts `yaml:"timeouts"`
	Limits   BodyLimits    `yaml:"limits"`
	Retry    ModelRetry    `yaml:"retry"`
	// Fallback are the ids of models that answer in this one's place, the first that can, while no
	// upstream of this one has a slot or takes calls; theirs are not followed.
	Fallback []string `yaml:"fallback"`
	// Shadow is the model that gets a copy of some calls. Its answers are counted and thrown away.
	Shadow Shadow `yaml:"shadow"`
	// PromptCache says who may use what an engine has cached of a prompt: shared, everybody, or
	// per_key, only the key that sent it and those of its cache_group.
	PromptCache string `yaml:"prompt_cache"`
	// SystemMessages is fold or in_place; empty: by engine profile.
	SystemMessages string `yaml:"system_messages"`
	// AdjacentTurns says what turns of one role in a row are sent as: joined into one, or as_sent, as
	// long as the engine does not refuse them; empty: by engine profile.
	AdjacentTurns string `yaml:"adjacent_turns"`
	// ReasoningHistory says which reasoning of earlier turns an engine is sent: loop, that since the
	// last text of the user; all; none. Empty: loop, but all that a client of chat completions sends.
	ReasoningHistory string `yaml:"reasoning_history"`
	// AllowMembers are members of requests that steer an engine and are refused otherwise: a name of
	// the top level, such as priority, or outer.inner. Those of the list reach this model's engines.
	AllowMembers []string `yaml:"allow_members"`

	// What follows is the catalog's, published as given.

	Name                   string         `yaml:"name"`
	OwnedBy                string         `yaml:"owned_by"` // Owner of the model, published in the catalog.
	Task                   string         `yaml:"task"`     // Task of the model, published in the catalog.
	Created                int64          `yaml:"created"`  // Unix time, published in the catalog.
	ContextLength          int            `yaml:"context_length"`
	MaxOutputLength        int            `yaml:"max_output_length"`
	CapacityTPM            int            `yaml:"capacity_tpm"` // Tokens a minute, published, not enforced.
	SupportedEndpoints     []string       `yaml:"supported_endpoints"`
	InputModalities        []string       `yaml:"input_modalities"`         // What prompts may hold; absent: not checked.
	OutputModalities       []string       `yaml:"output_modalities"`        // What answers hold.
	ModalityContextLengths map[string]int `yaml:"modality_context_lengths"` // Where they differ.
	Vision                 *Vision        `yaml:"vision"`
	Pricing                map[string]any `yaml:"pricing"`
	SupportedFeatures      []string       `yaml:"supported_features"` // Features of the model, published in the catalog.
	// SupportedReasoningEfforts is nil when the file is silent: then no effort is refused.
	SupportedReasoningEfforts []string `yaml:"supported_reasoning_efforts"`
	// Deprecated is from when on clients should use another model: header Deprecation (RFC 9745).
	Deprecated time.Time `yaml:"deprecated"`
	// Sunset is until when it is meant to be served: header Sunset (RFC 8594). Calls go on after it.
	Sunset time.Time `yaml:"sunset"`

	Discovered bool   `yaml:"-"` // an engine lists it, and the file does not name it
	Parent     string `yaml:"-"` // of a discovered adapter: the engine's name of its base
}

// Shadow is what is copied to another model's engines.
type Shadow struct {
	Model string `yaml:"model"` // Id of the model whose engines get the copies; empty: none are made.
	// Share is the part of the conversations of chats that are copied, with all of their turns.
	Share Percent `yaml:"share"`
}

// ModelRetry is what else may be sent again for a model.
type ModelRetry struct {
	// Resume is how often another engine may go on with a stream whose engine was lost, has stalled or
	// was drained for timeouts.drain; 0: the stream ends with an error where its engine was lost.
	Resume int `yaml:"resume"`
}

// Deployment binds a model to an upstream under the name that the engine knows.
type Deployment struct {
	Upstream string `yaml:"upstream"` // or a group: gpu-*, all whose names begin so, or tag:h100, all that have the tag
	Served   string `yaml:"served"`   // default: the model's id
	// Tier says when it serves: those of tier 0 always, those of a higher one while no target of the
	// tiers before it takes calls.
	Tier int `yaml:"tier"`
	// When says what that means, one for the whole tier: full, they are full (with a queue: for as
	// long as a call waits there) or out; down, they are out. Default above tier 0: full.
	When string `yaml:"when"`
	// Traffic makes an arm of the deployment, or of those of a group: they get this share of the
	// model's calls, the same conversations always, and the deployments without one get the others.
	Traffic *Percent `yaml:"traffic"`

	Arm string `yaml:"-"` // its name where there is Traffic: the upstream or group, as the file has it
}

// Discover publishes models that the engines of an upstream list, for as long as they do.
type Discover struct {
	Upstream string `yaml:"upstream"` // Name of the upstream whose models are found.
	Match    string `yaml:"match"`    // which of their names: one, or a pattern that ends in *; default all
	Prefix   string `yaml:"prefix"`   // stands before the names in the catalog
	Kind     string `yaml:"kind"`     // of these models; default: what the engine says, or else chat
	// Queue is that of each model but for adapters, which have their base's.
	Queue Queue `yaml:"queue"`
}

// Queue is the short wait for a full pool; zero depth: a full pool answers 429 at once.
type Queue struct {
	Depth int      `yaml:"depth"` // How many calls may wait for a slot; 0: none, a full pool answers 429 at once.
	Wait  Duration `yaml:"wait"`  // How long a call waits at most before it gets a 429.
}

// Vision is the catalog's vision object; all numbers as in the contract.
type Vision struct {
	MaxImageEdge      int `yaml:"max_image_edge"`
	MaxPixels         int `yaml:"max_pixels"`
	MaxTokens         int `yaml:"max_tokens"`
	ContextLength     int `yaml:"context_length"`      // Context length of calls with images.
	RetryAfterSeconds int `yaml:"retry_after_seconds"` // Retry-After of a call that finds no slot for images.
}

// Kinds of a model.
const (
	KindChat          = "chat"
	KindTranscription = "audio-transcription"
	KindSpeech        = "audio-speech"
	KindImage         = "image"
	KindImageEdit     = "image-edit"
	KindEmbedding     = "embedding"
	KindRerank        = "rerank"
)

// Operations that a key can be scoped to.
const (
	OpChat           = "chat"
	OpMessages       = "messages"
	OpResponses      = "responses"
	OpTranscriptions = "transcriptions"
	OpSpeech         = "speech"
	OpEmbeddings     = "embeddings"
	OpRerank         = "rerank"
	OpImages         = "images"
)

// Policies of a route.
const (
	PolicyLeastLoaded    = "least_loaded"
	PolicyTwoChoices     = "two_choices"
	PolicyRoundRobin     = "round_robin"
	PolicyPrefixAffinity = "prefix_affinity"
)
