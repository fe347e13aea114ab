package config

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// File is one configuration with its defaults filled in and its references resolved. It is
// read-only once Load or Parse has returned it.
type File struct {
	// The address of the public API. The default port is 4000 because engines use 8000, 8080, 11434
	// and 30000 themselves. unix:/PATH is a Unix socket, which the edge's user and group may use;
	// unix:/PATH|0666 sets another mode.
	Listen string `yaml:"listen"`
	// Networks, such as 10.0.0.0/8, of TCP proxies whose connections begin with the PROXY protocol
	// header (version 1 or 2). The address in the header is the client's, for limits and the log. A
	// connection from these networks without the header, and one from any other peer with it, is
	// closed and counted. The word unix stands for every peer at a Unix socket.
	ListenTrusted []string `yaml:"listen_trusted"`
	// Take X-Request-Id of requests from the peers of listen_trusted: it goes into the log as
	// proxy_request_id and back to the client as X-Request-Id; Request-Id stays the edge's own. Only
	// for proxies that set the header themselves, such as HAProxy by unique-id-header, because one
	// that passes bytes on passes the client's. One that is longer than 128 bytes, or has others than
	// letters, digits and . _ - : / + = @, does not count.
	TrustRequestID bool `yaml:"trust_request_id"`
	// The operator's listener: /metrics, /status, /-/ready and the commands that change a running
	// edge.
	Admin Admin `yaml:"admin"`
	// TLS of the public listener, with a certificate from files or one that the edge obtains by
	// ACME.
	TLS TLS `yaml:"tls"`
	// What is written to standard error.
	Log Log `yaml:"log"`
	// Spans of calls, exported as OTLP over HTTP.
	Tracing Tracing `yaml:"tracing"`
	// Refuse what the edge otherwise tolerates for common clients, such as unknown values of hints.
	// The edge then does not serve paths outside the contract: those that compact, that count a
	// request's tokens, or that only some engines have.
	Strict bool `yaml:"strict"`
	// Read this file, keys, certificates and secrets again when they change. With false they are
	// read only on SIGHUP and by `penstock reload`.
	Watch bool `yaml:"watch"`
	// With none the edge asks for no keys. This is allowed only while every listener is on
	// loopback, and web pages may call only from cors.origins. If omitted: every call needs a key.
	Auth string `yaml:"auth"`
	// How much of the edge a client may use before its call is admitted.
	Limits Limits `yaml:"limits"`
	// The timeouts of a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// What a waiting client receives while the engine sends nothing.
	Stream Stream `yaml:"stream"`
	// How often a failed call is sent to another engine.
	Retry Retry `yaml:"retry"`
	// What happens to running streams when their key, or one of its hashes, is removed: end lets
	// them finish, abort cuts them.
	OnRevoke string `yaml:"on_revoke"`
	// Which web pages may call the API.
	CORS CORS `yaml:"cors"`
	// Who may read the list of models.
	Catalog Catalog `yaml:"catalog"`
	// Settings of /v1/responses.
	Responses Responses `yaml:"responses"`
	// Which hosts image URLs in prompts may name.
	Images Images `yaml:"images"`
	// How several edges share the same keys and engines.
	Fleet Fleet `yaml:"fleet"`
	// Where usage of keys and models is kept over restarts: the path of a file, or a mapping. If
	// omitted: only in memory.
	Ledger Ledger `yaml:"ledger"`
	// Count usage by end user, too: the one in the header below, or otherwise in safety_identifier,
	// user or metadata.user_id of the request. Only a keyed hash is kept, for the 1,000 users with
	// the most usage.
	EndUsers EndUsers `yaml:"end_users"`
	// The keys that encrypt what clients carry from turn to turn without reading it: reasoning, and
	// the summaries of compacted conversations. If omitted: the edge makes a key at its start,
	// edges cannot open each other's reasoning, and no conversation is compacted.
	Seal Seal `yaml:"seal"`
	// A second file with its own `keys` list, watched like this one. Its keys are added to those of
	// this file.
	KeysFile string `yaml:"keys_file"`
	// Classes of calls, the first served first. If omitted: interactive, batch. A call of a later
	// class waits behind calls of earlier classes until it has waited half of its queue's wait. In
	// a full queue it loses its place to them, and it does not use a model's reserve. Requests with
	// service_tier flex belong to the last class.
	Classes []Class `yaml:"classes"`
	// The API keys of clients.
	Keys []Key `yaml:"keys"`
	// Groups of keys that share limits, such as those of a team. Each call counts for its key and for
	// the key's group.
	Groups []Group `yaml:"groups"`
	// Identity providers whose tokens (JWT, OpenID Connect) are accepted as well as keys.
	// proxy/access/auth/README.md shows Keycloak, Entra and Kubernetes.
	Issuers []Issuer `yaml:"issuers"`
	// Services of yours that decide about each call before an engine is asked, in this order, and
	// places that get copies of calls. proxy/request/hook/README.md has the form of questions and
	// answers, and proxy/request/hook/copies/README.md that of copies.
	Hooks []Hook `yaml:"hooks"`
	// Your own profiles for engines that are not bundled, in the form of the bundled ones.
	Engines []Engine `yaml:"engines"`
	// The engines, each with its address.
	Upstreams []Upstream `yaml:"upstreams"`
	// The models that clients can ask for.
	Models []Model `yaml:"models"`
	// Publish models for as long as their engines list them: models of Ollama, LM Studio and
	// llama.cpp's router, and adapters (LoRA) of vLLM. A model that this file names takes
	// precedence.
	Discover []Discover `yaml:"discover"`

	// LeftOut counts, by upstream, the models that are listed but not published.
	LeftOut map[string]int `yaml:"-"`

	origin *origin // the sources of the values; nil in a File that was not read from a text
}

// AuthNone is the value of File.Auth that switches credentials off. Validate refuses it unless
// every listener is on loopback.
const AuthNone = "none"

// Admin is the operator's listener. An empty Listen switches it off.
type Admin struct {
	// The address of the operator's listener, which may be a Unix socket as `listen` may. Empty
	// switches it off.
	Listen string `yaml:"listen"`
	// The bearer token of the operator's listener. It is required when `listen` is not on loopback;
	// /-/ready needs no token.
	Token Secret `yaml:"token"`
	// Further tokens with names and roles. `token` itself may do everything.
	Tokens []AdminToken `yaml:"tokens"`
	// Where the edge keeps keys that are made while it runs (/-/keys, `penstock key create`). With
	// fleet.keys they are in the fleet's store, and this is omitted.
	Keys AdminKeys `yaml:"keys"`
	// A certificate that switches the operator's listener to https. It is read again when it
	// changes; switching TLS on or off needs a restart.
	TLS AdminTLS `yaml:"tls"`
}

// Guarded reports whether the operator's listener asks for a token.
func (a *Admin) Guarded() bool { return a.Token != "" || len(a.Tokens) > 0 }

// AdminToken is a token of the operator's listener with a name and a role.
type AdminToken struct {
	// The name of the token. The log shows it for changes of keys, and the fleet for drained
	// upstreams.
	Name string `yaml:"name"`
	// The token, at least 16 characters long. Give either this or `hash`.
	Token Secret `yaml:"token"`
	// The hash of the token, as `penstock key hash` prints it, so that this file does not hold the
	// token.
	Hash Secret `yaml:"hash"`
	// What the token may do: read allows pages and metrics, keys also making, changing and revoking
	// keys, all also drains and reloads.
	Role string `yaml:"role"`
}

// AdminKeys configures where an edge without a store keeps the keys that are made at run time.
type AdminKeys struct {
	// A file that only edges write, with one key and its hash on each line. Its folder must be
	// writable. If several edges use one file, one of them writes it and the others read the change
	// within a second.
	File string `yaml:"file"`
}

// MakesKeys reports whether keys can be made at run time, in a file or the fleet's store.
func (f *File) MakesKeys() bool { return f.Admin.Keys.File != "" || f.Fleet.Keys.Enabled() }

// Roles of admin tokens. Each role includes those before it.
const (
	RoleRead = "read"
	RoleKeys = "keys"
	RoleAll  = "all"
)

// RoleMay reports whether a token with role has at least the rights of needed.
func RoleMay(role, needed string) bool {
	roles := words["admin.tokens.role"]
	return slices.Index(roles, role) >= slices.Index(roles, needed)
}

// AdminTLS holds the paths of the operator listener's certificate pair, relative to the file's
// folder as for TLS.
type AdminTLS struct {
	// The file with the listener's certificate and its intermediates. Empty: the listener speaks plain
	// HTTP.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
}

// Enabled reports whether the operator's listener speaks TLS.
func (t AdminTLS) Enabled() bool { return t.Cert != "" }

// TLS holds the paths of the edge's own certificate pair. The configuration gives them relative to
// its folder; Load and Parse join them with that folder.
type TLS struct {
	// The file with the edge's certificate and its intermediates. It is read again when it changes;
	// switching TLS on or off needs a restart.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
	// The file with the CA certificates that sign clients' certificates (keys[].certificate).
	ClientCA string `yaml:"client_ca"`
	// Certificates that the edge obtains and renews itself, one for each domain. The authority must
	// reach the edge from the internet. Domains change with a reload, the rest with a restart.
	ACME ACME `yaml:"acme"`

	ClientCAs []byte `yaml:"-"` // the content of ClientCA
}

// Enabled reports whether the public listener speaks TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || t.ACME.Enabled() }

// ACME makes the edge obtain and renew its certificates itself, one for each domain, instead of
// reading a pair from files.
type ACME struct {
	// The names at which clients reach the edge. Each gets a certificate of its own.
	Domains []string `yaml:"domains"`
	// The mail address of the account, for the authority.
	Email string `yaml:"email"`
	// The URL of the authority's ACME directory.
	Directory string `yaml:"directory"`
	// The folder for the account's key and the certificates.
	Folder string `yaml:"folder"`
	// The address of a second listener, usually port 80, that answers HTTP-01 challenges and
	// redirects browsers to https. If omitted: the challenge is TLS-ALPN-01 on `listen`, which must
	// be reachable at port 443.
	HTTP string `yaml:"http"`
	// Agree to the authority's terms of service. Without this no account is made.
	AcceptTerms bool `yaml:"accept_terms"`
	// The file with the CA certificates for the directory of a private authority.
	CA string `yaml:"ca"`
	// The external account binding, for an authority that requires one.
	EAB ACMEEAB `yaml:"eab"`

	CAs []byte `yaml:"-"` // the content of CA
}

// ACMEEAB binds the ACME account to an existing account at the authority (external account
// binding).
type ACMEEAB struct {
	// The key identifier that the authority issued for the account.
	KID string `yaml:"kid"`
	// The MAC key of the account in base64url, as the authority issued it.
	Key Secret `yaml:"key"`
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

// Log configures what is written to standard error.
type Log struct {
	// The least level that is written: debug, info, warn or error.
	Level string `yaml:"level"`
	// One JSON object a line, or text for a terminal (console).
	Format string `yaml:"format"`
	// Write one line for each call, at level info.
	Access bool `yaml:"access"`
	// Send the upstream's name and the call's timings in response headers.
	DebugHeaders bool `yaml:"debug_headers"`
	// Write the peer's address in each line. Behind a balancer it is the address of the balancer; at
	// a Unix socket it is the word unix.
	Client bool `yaml:"client"`
	// Write a hash of the session that the client names in each line. It is keyed with a secret of
	// the process, so it tells sessions apart but changes with a restart.
	Sessions bool `yaml:"sessions"`
}

// Catalog controls who may read the list of models.
type Catalog struct {
	// Answer GET /v1/models without a key. With false it needs one like every other call.
	Public bool `yaml:"public"`
}

// Tracing configures where spans go. OTEL_TRACES_SAMPLER decides which traces are recorded.
type Tracing struct {
	// The OTLP/HTTP endpoint to which spans are sent, such as http://127.0.0.1:4318. Empty switches
	// tracing off.
	OTLP string `yaml:"otlp"`
}

// Limits bound what clients can use before they are admitted.
type Limits struct {
	// The largest JSON body. A larger body gets a 413. So does a compressed body (gzip, zstd) whose
	// decoded size is larger, or is above 1 MiB and more than a hundred times the compressed size.
	RequestBody Bytes `yaml:"request_body"`
	// The largest upload of audio or images. A larger upload gets a 413.
	UploadBody Bytes `yaml:"upload_body"`
	// The least bytes a second, over 10 s, at which a body must arrive. A slower body gets a 408.
	// Large JSON bodies get two minutes more.
	UploadRate Bytes `yaml:"upload_rate"`
	// The share of the memory limit that all request bodies together may hold. At this bound new
	// calls get a 503.
	BodyMemory Percent `yaml:"body_memory"`
	// The share of the memory limit that buffered replies of engines may hold, not counting 64 KiB
	// for each.
	ReplyMemory Percent `yaml:"reply_memory"`
	// How many connections clients may have at once. At this bound the edge closes an idle
	// connection for each new one: first those that have presented no key, and among them those of
	// the address with the most connections.
	Connections int `yaml:"connections"`
	// How many of these connections one client address may have; for IPv6, one /64. 0: no such
	// bound. Use 0 behind a balancer, because all clients then share its address.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// The largest head of a request: its request line, its fields, the empty line that ends it and
	// empty lines before it. A larger head gets a 431.
	Header Bytes `yaml:"header"`
}

// Timeouts are the timeouts of a call. Zero means no limit for Total, and "at once" for Linger and
// Drain. For FirstEvent and Idle, zero makes the limit depend on the engine's reported progress.
// Other timeouts must not be zero.
type Timeouts struct {
	// How long connecting to an upstream may take.
	Connect Duration `yaml:"connect"`
	// How long a stream's first event may take after the request is written, the response header
	// included. 0s: 15m for an engine whose counters show that it works (see `penstock doctor`),
	// 120s for any other. Any other value applies to all engines.
	FirstEvent Duration `yaml:"first_event"`
	// How long an answer that is not streamed may take, from the request being written to the
	// answer's end.
	Answer Duration `yaml:"answer"`
	// How long an answer may pause. Comments in a stream count as activity. 0s: 15m for an engine
	// whose counters show that it works, 60s for any other.
	Idle Duration `yaml:"idle"`
	// How long a whole call may take. 0s: no limit.
	Total Duration `yaml:"total"`
	// How long the head of a request may take to arrive.
	ClientHeader Duration `yaml:"client_header"`
	// How long a request body may pause.
	ClientBody Duration `yaml:"client_body"`
	// How long a connection may be idle between two requests. It should exceed the idle timeout of
	// a balancer in front: 620s behind Google's.
	ClientIdle Duration `yaml:"client_idle"`
	// How long one write to a client may take. A large answer is written in pieces of 64 KiB.
	Write Duration `yaml:"write"`
	// How long the edge still accepts connections after SIGTERM, so that balancers can notice.
	Linger Duration `yaml:"linger"`
	// How long running calls may then take to end. It is also how long a drained or removed
	// upstream keeps its calls before they may be moved.
	Drain Duration `yaml:"drain"`
}

// ModelTimeouts are a model's own timeouts. A nil member keeps the file's value.
type ModelTimeouts struct {
	// The model's own timeouts.connect. If omitted: the file's.
	Connect *Duration `yaml:"connect"`
	// The model's own timeouts.first_event. If omitted: the file's.
	FirstEvent *Duration `yaml:"first_event"`
	// The model's own timeouts.answer. If omitted: the file's.
	Answer *Duration `yaml:"answer"`
	// The model's own timeouts.idle. If omitted: the file's.
	Idle *Duration `yaml:"idle"`
	// The model's own timeouts.total. If omitted: the file's.
	Total *Duration `yaml:"total"`
	// The model's own timeouts.write. If omitted: the file's.
	Write *Duration `yaml:"write"`
}

// Over returns t with the timeouts that m sets.
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

// Stream holds the timers for a waiting client. Zero switches a timer off.
type Stream struct {
	// How long a stream's status line is delayed for its first event, so that a failure can still
	// be a status. 0s: it is sent at once.
	CommitAfter Duration `yaml:"commit_after"`
	// The silence after which the edge sends a keep-alive on a stream. If no event has come yet,
	// the first keep-alive is sent with the status line, after stream.commit_after. 0s: never.
	Keepalive Duration `yaml:"keepalive"`
	// For answers that are not streamed: the interval at which the edge sends white space during
	// silence, for balancers that cut silent connections (45s behind nginx's 60s). The status is
	// then 200 before the result is known, and a failure is only in the JSON body, where not every
	// client looks. 0s: never.
	WholeKeepalive Duration `yaml:"whole_keepalive"`
}

// Retry bounds how often calls are sent again.
type Retry struct {
	// How many upstreams of its tier a call may be sent to. One upstream of a later tier and one of
	// a fallback model come on top. 1: a failed call is not sent to another upstream of its tier.
	Attempts int `yaml:"attempts"`
	// The share of the calls of the last 10 s that may be sent again, but at least 3 calls. It
	// keeps retries from doubling the load of a failing fleet.
	Budget Percent `yaml:"budget"`
}

// CORS lists the origins that browsers may call from. Empty: none.
type CORS struct {
	// Origins of web pages that may call the API, such as https://chat.example.com. If omitted:
	// none.
	Origins []string `yaml:"origins"`
}

// Responses are the settings of /v1/responses.
type Responses struct {
	// Serve /v1/responses over WebSocket as well. This extends the contract.
	WebSocket bool `yaml:"websocket"`
}

// Images lists the allowed hosts of https image URLs. Empty: any name, but never an IP address.
type Images struct {
	// The hosts that https image URLs may name. If omitted: any name, but never an IP address.
	Hosts []string `yaml:"hosts"`
}

// Seal holds the keys for data that clients carry from turn to turn but cannot read: the first key
// encrypts, all keys decrypt. Without a key, the edge makes one when it starts.
type Seal struct {
	// Keys of 32 bytes in base64: the first encrypts, all decrypt. To change the key, put a new one
	// in front, and remove the old one when no older conversation is continued: a compacted
	// conversation is lost with its key.
	Keys []Secret `yaml:"keys"`
}

// Upstream is one engine process, or one name that resolves to several.
type Upstream struct {
	// The name of the upstream in deployments, logs and pages.
	Name string `yaml:"name"`
	// The engine's base URL, without /v1. An engine at a Unix socket (vLLM's --uds) is unix:/PATH, or
	// unix:/PATH:/BASE with a base path.
	URL string `yaml:"url"`
	// Words, such as [h100, eu]. Deployments and `penstock drain` select all upstreams with a tag
	// as tag:h100.
	Tags []string `yaml:"tags"`
	// The engine's profile: auto, a bundled one, or one of `engines`. With auto the edge detects
	// the engine.
	Engine string `yaml:"engine"`
	// The bearer token that is sent to the engine.
	APIKey Secret `yaml:"api_key"`
	// How many calls the engine runs at once: one number for all, or one for each kind, which add
	// up. If omitted: the number that the engine reports, or its profile's.
	Concurrency Concurrency `yaml:"concurrency"`
	// How fast the engine is, relative to others. Twice the weight gets twice the load.
	Weight float64 `yaml:"weight"`
	// How the engine's health is checked.
	Probe Probe `yaml:"probe"`
	// How an https engine is verified, and which certificate the edge presents.
	TLS UpstreamTLS `yaml:"tls"`
	// Send the engine each call's class (`classes`) for its own queue: vLLM with
	// --scheduling-policy priority, SGLang with --enable-priority-scheduling. Without that flag
	// vLLM refuses calls of later classes, or serves all classes alike.
	Priorities bool `yaml:"priorities"`
	// Set to proven if the engine, with its models' templates, continues a last message of the
	// assistant (models[].retry.resume). If omitted: by profile.
	Prefill string `yaml:"prefill"`
	// Look up the URL's host name at this interval, such as 30s, and make each address an upstream
	// of its own. srv:_http._tcp.vllm, or "srv:_http._tcp.vllm 5s", takes addresses, ports and
	// weights from SRV records (Consul, Nomad, Kubernetes, Swarm).
	Resolve Resolve `yaml:"resolve"`
	// Make each selected pod an upstream of its own, instead of resolve. The URL gives scheme, name
	// and port. A pod that is being deleted gets no new calls. server and account are needed only
	// outside the cluster.
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// How many models an engine that loads on demand keeps in memory (Ollama, LM Studio,
	// llama.cpp's router). Calls for another model wait in that model's queue for their turn, so
	// the engine does not swap models for each call. If the engine reports a smaller number, that
	// number counts. 0: no turns.
	Residents int `yaml:"residents"`
	// Mark a hosted API, or an engine of another organisation. It gets only calls of keys whose
	// `tiers` include its deployment's tier.
	External bool `yaml:"external"`
	// The request that wakes the engine when a call finds no engine of its model: vLLM's /wake_up,
	// or your own script. It is sent once for all waiting calls, without a body.
	Wake  Wake `yaml:"wake"`
	Edges int  `yaml:"-"` // the edges that share its slots (Fleet.Edges)
	Lists bool `yaml:"-"` // Discover publishes its models
}

// Discovery describes how the upstream's engines are found. An empty text means that the upstream's
// URL is the engine.
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

// Kubernetes selects the pods that are an upstream's engines. The upstream's URL gives the scheme,
// the name and the port.
type Kubernetes struct {
	// A label selector in kubectl's form: app=vllm,tier!=test.
	Selector string `yaml:"selector"`
	// The name of an InferencePool, whose selector and ports are used instead of `selector`.
	Pool string `yaml:"pool"`
	// The namespace of the pods. If omitted: the edge's own.
	Namespace string `yaml:"namespace"`
	// The ports on which the pods' engines listen. If omitted: the URL's.
	Ports []int `yaml:"ports"`
	// The URL of the Kubernetes API. If omitted: that of the edge's own cluster.
	Server string `yaml:"server"`
	// The folder with token, ca.crt and namespace. If omitted: that of the mounted service account.
	Account string `yaml:"account"`
}

// Set reports whether the file configures Kubernetes.
func (k *Kubernetes) Set() bool {
	return k.Selector != "" || k.Pool != "" || k.Namespace != "" || len(k.Ports) > 0 || k.Server != "" || k.Account != ""
}

// String identifies the selected pods and their API server. Different strings select different
// pods.
func (k *Kubernetes) String() string {
	if !k.Set() {
		return ""
	}
	return fmt.Sprintf("%q", []string{k.Selector, k.Pool, k.Namespace, fmt.Sprint(k.Ports), k.Server, k.Account})
}

// Wake is the request that wakes a sleeping or stopped engine: /wake_up of vLLM, or a script of the
// operator. It has no body and contains nothing from a client.
type Wake struct {
	// The URL of the request. Empty: the engine is not woken.
	URL string `yaml:"url"`
	// The method of the request: GET, POST or PUT.
	Method string `yaml:"method"`
	// How long the engine must have been down before it is woken.
	After Duration `yaml:"after"`
}

// Concurrency is written as one number (one shared pool), as {shared, fleet}, or as a map of
// separate pools. The zero value means the number that the engine reports.
type Concurrency struct {
	// Slots that calls of every kind share.
	Shared int `yaml:"shared"`
	// Slots for all other calls: calls without images at endpoints that are not for audio. Sound
	// within a chat counts as text.
	Text int `yaml:"text"`
	// Slots for calls with images.
	Vision int `yaml:"vision"`
	// Slots for transcriptions and speech.
	Audio int `yaml:"audio"`
	// With exact the edges of a fleet together never exceed `shared`, at the cost of a message to
	// the store for each call. If omitted: they may exceed it by one or two.
	Fleet string `yaml:"fleet"`
}

// Exact reports whether all edges of a fleet together never exceed the number of slots.
func (c Concurrency) Exact() bool { return c.Fleet == FleetExact && c.Shared > 0 }

// FleetExact is the value of Concurrency.Fleet.
const FleetExact = "exact"

// Set reports whether the file gives a concurrency.
func (c Concurrency) Set() bool { return c != Concurrency{} }

// Probe configures an upstream's health checks. Zero members take their value from the engine's
// profile.
type Probe struct {
	// The page to probe. If omitted: by profile.
	Path string `yaml:"path"`
	// The time between two probes. Once an engine has had no work for a minute, it is five times as
	// long, but at most 10s.
	Interval Duration `yaml:"interval"`
	// How long connecting may take, and then the answer. If omitted: by profile. An engine that answers
	// nothing while it works counts as stopped after a minute, unless this is longer than its answers.
	Timeout Duration `yaml:"timeout"`
	// How many probes in a row must fail before the upstream is down.
	Fall int `yaml:"fall"`
	// How many probes in a row must succeed before it is up again.
	Rise int `yaml:"rise"`
}

// UpstreamTLS configures how an https upstream is verified and what the edge presents to it. Paths
// are relative to the file's folder as for TLS.
type UpstreamTLS struct {
	// The file with the CA certificates that sign the server's. If omitted: those of the system.
	CA string `yaml:"ca"`
	// The file with the certificate that the edge presents.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
	// Do not verify the server's certificate.
	Insecure bool `yaml:"insecure"`
}

// Model is one public model.
type Model struct {
	// The name that clients request and that answers carry.
	ID string `yaml:"id"`
	// What the model is for. It decides the model's endpoints.
	Kind string `yaml:"kind"`
	// Further names of the model. A trailing * matches any rest. A variant in brackets also
	// matches: llama[1m]. Answers carry the id.
	Aliases []string `yaml:"aliases"`
	// The upstreams that serve the model.
	Deployments []Deployment `yaml:"deployments"`
	// How an upstream is picked: least_loaded picks the upstream that should answer first, given
	// the prompts that it still has to read and those in its cache; round_robin uses them in turn.
	// prefix_affinity and two_choices are older names of least_loaded.
	Policy string `yaml:"policy"`
	// Where calls wait when all slots are taken.
	Queue Queue `yaml:"queue"`
	// The share of each upstream's slots, rounded down, that only calls of the first class may
	// take.
	Reserve Percent `yaml:"reserve"`
	// The timeouts of this model's calls, where they differ from the file's.
	Timeouts ModelTimeouts `yaml:"timeouts"`
	// What more may be sent again for this model.
	Retry ModelRetry `yaml:"retry"`
	// Models that answer while no upstream of this model can. The first model that can answer is
	// used; its own fallbacks are not followed.
	Fallback []string `yaml:"fallback"`
	// Another model whose engines get a copy of some calls. Its answers are counted and discarded
	// (see `penstock canary`).
	Shadow Shadow `yaml:"shadow"`
	// Which keys may use a cached prompt: every key (shared), or only the key that sent it and
	// those of its cache_group (per_key).
	PromptCache string `yaml:"prompt_cache"`
	// Whether system messages after the first turn are folded into one at the start (fold) or sent
	// in_place. If omitted: fold.
	SystemMessages string `yaml:"system_messages"`
	// Which reasoning of earlier turns is sent to the engine: loop (only since the user's last
	// text), all or none. If omitted: loop, but all that a client of chat completions sends.
	ReasoningHistory string `yaml:"reasoning_history"`
	// Request members that may be sent to this model although they are refused by default because
	// they steer the engine, such as priority or chat_template. A member of a member is written
	// outer.inner.
	AllowMembers []string `yaml:"allow_members"`

	// The members below are published in the catalog as given.

	// The model's display name, published in the catalog.
	Name string `yaml:"name"`
	// The model's owner, published in the catalog.
	OwnedBy string `yaml:"owned_by"`
	// The model's task, published in the catalog.
	Task string `yaml:"task"`
	// The model's creation as Unix time, published in the catalog.
	Created int64 `yaml:"created"`
	// The most tokens of prompt and answer together. If omitted: the smallest number that the
	// model's ready engines report.
	ContextLength int `yaml:"context_length"`
	// The most tokens of an answer. A higher limit in a request is lowered to it.
	MaxOutputLength int `yaml:"max_output_length"`
	// Tokens a minute that the model is meant to serve. This is published, not enforced.
	CapacityTPM int `yaml:"capacity_tpm"`
	// The endpoints that serve the model; others answer 400. If omitted: by kind. An endpoint that
	// only some engines have answers 404 if no engine of the model has it.
	SupportedEndpoints []string `yaml:"supported_endpoints"`
	// What prompts may hold. If omitted: not checked.
	InputModalities []string `yaml:"input_modalities"`
	// What answers hold, published in the catalog.
	OutputModalities []string `yaml:"output_modalities"`
	// Context lengths of single modalities, where they differ from context_length.
	ModalityContextLengths map[string]int `yaml:"modality_context_lengths"`
	// Limits of calls with images, published in the catalog.
	Vision *Vision `yaml:"vision"`
	// Prices of a million tokens as text: input, cached_input and output. Spend limits use these
	// three; other members are only published.
	Pricing map[string]any `yaml:"pricing"`
	// Features of the model, published in the catalog.
	SupportedFeatures []string `yaml:"supported_features"`
	// The reasoning efforts that calls may ask for; any other gets a 400. If omitted: not checked,
	// and the catalog lists all of them if supported_features has reasoning.
	SupportedReasoningEfforts []string `yaml:"supported_reasoning_efforts"`
	// The date from which clients should use another model. Answers carry it in the Deprecation
	// header (RFC 9745).
	Deprecated time.Time `yaml:"deprecated"`
	// The date until which the model is meant to be served. Answers carry it in the Sunset header
	// (RFC 8594); calls are still served after it.
	Sunset time.Time `yaml:"sunset"`

	Discovered bool   `yaml:"-"` // from an engine's list, not from the file
	Parent     string `yaml:"-"` // of a discovered adapter: the engine's name for its base
}

// Shadow configures copies of calls to another model's engines.
type Shadow struct {
	// The id of the model whose engines get the copies. Empty: no call is copied.
	Model string `yaml:"model"`
	// The share of chat conversations to copy, each with all of its turns.
	Share Percent `yaml:"share"`
}

// ModelRetry configures further retries for a model.
type ModelRetry struct {
	// How often another engine may continue a stream that its engine lost, stalled, or still had
	// after a drain of timeouts.drain. 0: such a stream ends with an error.
	Resume int `yaml:"resume"`
}

// Deployment binds a model to an upstream under the engine's name for it.
type Deployment struct {
	// The name of an upstream, or a group: gpu-* selects all whose names begin with gpu-, tag:h100
	// all with that tag. A group skips upstreams that the list names directly.
	Upstream string `yaml:"upstream"`
	// The engine's own name for the model. If omitted: the model's id.
	Served string `yaml:"served"`
	// The deployment's tier. Tier 0 always serves; a higher tier serves only while no upstream of
	// the lower tiers takes calls.
	Tier int `yaml:"tier"`
	// When a tier above 0 serves: once the lower tiers are full or out (full), or only once they
	// are out (down). With a queue, full means after the call has waited there. All deployments of
	// a tier have the same value. If omitted: full.
	When string `yaml:"when"`
	// Make this deployment, or group, an arm: it gets this share of the model's conversations and
	// no other calls. Deployments without a share get the rest. 0%: none yet.
	Traffic *Percent `yaml:"traffic"`
	// Which prompts are sent to these engines.
	PromptTokens PromptTokens `yaml:"prompt_tokens"`

	Arm string `yaml:"-"` // its name if Traffic is set: the upstream or group as in the file
}

// PromptTokens bounds the prompts that are sent to the engines of a deployment.
type PromptTokens struct {
	// The longest prompt in tokens, as the edge estimates it. Longer prompts go to the model's
	// other deployments, and at least one of these must have no max. 0: any.
	Max int `yaml:"max"`
}

// Discover publishes models for as long as the engines of an upstream list them.
type Discover struct {
	// The name of the upstream whose models are published.
	Upstream string `yaml:"upstream"`
	// The models to publish: one name, or a pattern that ends in *.
	Match string `yaml:"match"`
	// A prefix for their names in the catalog.
	Prefix string `yaml:"prefix"`
	// The kind of these models. If omitted: what the engine reports, otherwise chat.
	Kind string `yaml:"kind"`
	// The queue of each of these models. Adapters share their base model's queue.
	Queue Queue `yaml:"queue"`
}

// Queue configures how calls wait for a slot of a full pool. With depth 0 they get a 429 at once.
type Queue struct {
	// How many calls may wait for a slot. 0: a full pool answers 429 at once.
	Depth int `yaml:"depth"`
	// How long a call may wait before it gets a 429. 0s: no call waits. It is required with a
	// depth.
	Wait Duration `yaml:"wait"`
}

// Vision is the catalog's vision object, as in the contract.
type Vision struct {
	// The longest edge of an image in pixels, published as advice.
	MaxImageEdge int `yaml:"max_image_edge"`
	// The most pixels of an image. A larger image gets a 400.
	MaxPixels int `yaml:"max_pixels"`
	// The most tokens of an answer to a call with images.
	MaxTokens int `yaml:"max_tokens"`
	// The context length of calls with images.
	ContextLength int `yaml:"context_length"`
	// The Retry-After, in seconds, for a call that finds no slot for images.
	RetryAfterSeconds int `yaml:"retry_after_seconds"`
}

// Values of Model.Kind.
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
	OpCompact        = "compact"
	OpTranscriptions = "transcriptions"
	OpSpeech         = "speech"
	OpEmbeddings     = "embeddings"
	OpRerank         = "rerank"
	OpImages         = "images"
	OpScore          = "score"
	OpClassify       = "classify"
	OpPooling        = "pooling"
	OpTokenize       = "tokenize"
	OpModerations    = "moderations"
	OpRealtime       = "realtime"
)

// Policies of a route.
const (
	PolicyLeastLoaded    = "least_loaded"
	PolicyTwoChoices     = "two_choices"
	PolicyRoundRobin     = "round_robin"
	PolicyPrefixAffinity = "prefix_affinity"
)
