package config

import (
	"fmt"
	"time"

	"penstock/config/money"
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
	Seal      Seal       `yaml:"seal"`
	KeysFile  string     `yaml:"keys_file"` // its keys are appended to Keys; joined with the file's folder
	Keys      []Key      `yaml:"keys"`
	Issuers   []Issuer   `yaml:"issuers"`
	Engines   []Engine   `yaml:"engines"`
	Upstreams []Upstream `yaml:"upstreams"`
	Models    []Model    `yaml:"models"`

	origin *origin // where the values came from; nil in a File that was made by hand
}

// AuthNone is the value of File.Auth that switches credentials off; it is refused off loopback.
const AuthNone = "none"

// Admin is the operator's listener. An empty Listen switches it off.
type Admin struct {
	Listen string `yaml:"listen"`
	Token  Secret `yaml:"token"`
}

// TLS holds the paths of the edge's own certificate pair. They are written relative to the file's
// folder; Load and Parse join them with it.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

// Enabled reports whether the public listener speaks TLS.
func (t TLS) Enabled() bool { return t.Cert != "" }

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

// Tracing holds the OTLP/HTTP endpoint; empty is off.
type Tracing struct {
	OTLP string `yaml:"otlp"`
}

// Limits bound what clients may cost before they are admitted.
type Limits struct {
	RequestBody Bytes   `yaml:"request_body"` // JSON bodies
	UploadBody  Bytes   `yaml:"upload_body"`  // multipart bodies
	UploadRate  Bytes   `yaml:"upload_rate"`  // bytes per second, over 10 s
	BodyMemory  Percent `yaml:"body_memory"`  // share of the memory limit that bodies may hold
	ReplyMemory Percent `yaml:"reply_memory"` // share of the memory limit that engines' replies may hold
	Connections int     `yaml:"connections"`
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
	Connect    *Duration `yaml:"connect"`
	FirstEvent *Duration `yaml:"first_event"`
	Answer     *Duration `yaml:"answer"`
	Idle       *Duration `yaml:"idle"`
	Total      *Duration `yaml:"total"`
	Write      *Duration `yaml:"write"`
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
	CommitAfter Duration `yaml:"commit_after"`
	Keepalive   Duration `yaml:"keepalive"`
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
	Keys []Secret `yaml:"keys"`
}

// Key is one API key. Only its hash is known.
type Key struct {
	ID         string    `yaml:"id"`
	Hash       KeyHashes `yaml:"hash"`
	Models     []string  `yaml:"models"`     // exact ids or trailing-* patterns; default ["*"]
	Operations []string  `yaml:"operations"` // default: Operations()
	Expires    time.Time `yaml:"expires"`    // RFC 3339 or a date (its first moment, UTC); zero: never
	Active     *bool     `yaml:"active"`     // default true
	Limits     KeyLimits `yaml:"limits"`
	// CacheGroup names keys that share cached prompts where a model's prompt_cache is per_key; empty:
	// the key shares with none.
	CacheGroup string `yaml:"cache_group"`
	Edges      int    `yaml:"-"` // those that share the limits: Fleet.Edges
}

// Enabled reports whether the key may be used at all (Active is true unless the file says
// otherwise).
func (k *Key) Enabled() bool { return k.Active == nil || *k.Active }

// KeyHash is one hash of a key with an optional end of its own, for rotation.
type KeyHash struct {
	Hash    string    `yaml:"hash"` // "sha256:" and 64 hex digits of the whole key
	Expires time.Time `yaml:"expires"`
}

// HashPrefix begins every KeyHash.Hash; 64 hexadecimal digits follow, which Load and Parse turn
// into small letters.
const HashPrefix = "sha256:"

// KeyHashes is written as one string or as a list of {hash, expires}.
type KeyHashes []KeyHash

// KeyLimits bound one key; zero is "no limit".
type KeyLimits struct {
	RequestsPerMinute int `yaml:"requests_per_minute"`
	TokensPerMinute   int `yaml:"tokens_per_minute"`
	Concurrency       int `yaml:"concurrency"`

	// Budgets of days and months, in UTC. Money is by the models' pricing, in its currency.
	TokensPerDay   int          `yaml:"tokens_per_day"`
	TokensPerMonth int          `yaml:"tokens_per_month"`
	SpendPerDay    money.Amount `yaml:"spend_per_day"`
	SpendPerMonth  money.Amount `yaml:"spend_per_month"`
}

// Budgeted reports whether there is a budget of a day or a month.
func (l *KeyLimits) Budgeted() bool {
	return l.TokensPerDay != 0 || l.TokensPerMonth != 0 ||
		!l.SpendPerDay.Zero() || !l.SpendPerMonth.Zero()
}

// Upstream is one engine process, or one name that resolves to several.
type Upstream struct {
	Name        string      `yaml:"name"`
	URL         string      `yaml:"url"` // base URL without /v1; Load and Parse drop a trailing slash
	Engine      string      `yaml:"engine"`
	APIKey      Secret      `yaml:"api_key"`
	Concurrency Concurrency `yaml:"concurrency"`
	Weight      float64     `yaml:"weight"` // default 1
	Probe       Probe       `yaml:"probe"`
	TLS         UpstreamTLS `yaml:"tls"`
	Native      []string    `yaml:"native"` // messages, responses
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
	// a request that starts the engine when a call finds none of its model's engines
	Wake  Wake `yaml:"wake"`
	Edges int  `yaml:"-"` // those that share its slots: Fleet.Edges
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
	Text   int `yaml:"text"`
	Vision int `yaml:"vision"`
	Audio  int `yaml:"audio"`
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
	Interval Duration `yaml:"interval"`
	Timeout  Duration `yaml:"timeout"`
	Fall     int      `yaml:"fall"`
	Rise     int      `yaml:"rise"`
}

// UpstreamTLS says how an https upstream is verified and what the edge shows it. Paths are joined
// with the file's folder as those of TLS are.
type UpstreamTLS struct {
	CA       string `yaml:"ca"`
	Cert     string `yaml:"cert"`
	Key      string `yaml:"key"`
	Insecure bool   `yaml:"insecure"`
}

// Model is one public model.
type Model struct {
	ID          string        `yaml:"id"`
	Kind        string        `yaml:"kind"`
	Aliases     []string      `yaml:"aliases"`
	Deployments []Deployment  `yaml:"deployments"`
	Policy      string        `yaml:"policy"`
	Queue       Queue         `yaml:"queue"`
	Timeouts    ModelTimeouts `yaml:"timeouts"`
	Retry       ModelRetry    `yaml:"retry"`
	// PromptCache says who may use what an engine has cached of a prompt: shared, everybody, or
	// per_key, only the key that sent it and those of its cache_group.
	PromptCache string `yaml:"prompt_cache"`
	// SystemMessages is fold or in_place; empty: by engine profile.
	SystemMessages string `yaml:"system_messages"`
	// ReasoningHistory says which reasoning of earlier turns an engine is sent: loop, that since the
	// last text of the user; all; none. Empty: loop, but all that a client of chat completions sends.
	ReasoningHistory string `yaml:"reasoning_history"`
	// AllowMembers are members of requests that steer an engine and are refused otherwise: a name of
	// the top level, such as priority, or outer.inner. Those of the list reach this model's engines.
	AllowMembers []string `yaml:"allow_members"`

	// What follows is the catalog's, published as given.

	Name                   string         `yaml:"name"`
	OwnedBy                string         `yaml:"owned_by"`
	Task                   string         `yaml:"task"`
	Created                int64          `yaml:"created"`
	ContextLength          int            `yaml:"context_length"`
	MaxOutputLength        int            `yaml:"max_output_length"`
	CapacityTPM            int            `yaml:"capacity_tpm"`
	SupportedEndpoints     []string       `yaml:"supported_endpoints"`
	InputModalities        []string       `yaml:"input_modalities"`
	OutputModalities       []string       `yaml:"output_modalities"`
	ModalityContextLengths map[string]int `yaml:"modality_context_lengths"`
	Vision                 *Vision        `yaml:"vision"`
	Pricing                map[string]any `yaml:"pricing"`
	SupportedFeatures      []string       `yaml:"supported_features"`
	// SupportedReasoningEfforts is nil when the file is silent: then no effort is refused.
	SupportedReasoningEfforts []string `yaml:"supported_reasoning_efforts"`
}

// ModelRetry is what else may be sent again for a model.
type ModelRetry struct {
	// Resume is how often another engine may go on with a stream whose engine was lost, has stalled or
	// was drained for timeouts.drain; 0: the stream ends with an error where its engine was lost.
	Resume int `yaml:"resume"`
}

// Deployment binds a model to an upstream under the name that the engine knows.
type Deployment struct {
	Upstream string `yaml:"upstream"`
	Served   string `yaml:"served"` // default: the model's id
	// Tier says when it serves: those of tier 0 always, those of a higher one while no target of the
	// tiers before it takes calls.
	Tier int `yaml:"tier"`
	// When says what that means, one for the whole tier: full, they are full (with a queue: for as
	// long as a call waits there) or out; down, they are out. Default above tier 0: full.
	When string `yaml:"when"`
}

// Queue is the short wait for a full pool; zero depth: a full pool answers 429 at once.
type Queue struct {
	Depth int      `yaml:"depth"`
	Wait  Duration `yaml:"wait"`
}

// Vision is the catalog's vision object; all numbers as in the contract.
type Vision struct {
	MaxImageEdge      int `yaml:"max_image_edge"`
	MaxPixels         int `yaml:"max_pixels"`
	MaxTokens         int `yaml:"max_tokens"`
	ContextLength     int `yaml:"context_length"`
	RetryAfterSeconds int `yaml:"retry_after_seconds"`
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
