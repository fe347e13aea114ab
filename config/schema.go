package config

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// File is one configuration, defaults filled in and references resolved. It is read-only once Load
// or Parse has returned it; everything that serves requests is built from it.
type File struct {
	// The address of the public API. The default port is 4000 because engines use 8000, 8080, 11434
	// and 30000 themselves.
	Listen string `yaml:"listen"`
	// Networks, such as 10.0.0.0/8, whose connections begin with the PROXY protocol's header (version 1
	// or 2): proxies that pass bytes on. The address that it names is the client's, for limits and the
	// log. One of their connections without the header, and one of another peer with it, is closed and
	// counted.
	ListenTrusted []string `yaml:"listen_trusted"`
	// The operator's listener: /metrics, /status, /-/ready and the commands that change a running
	// edge.
	Admin Admin `yaml:"admin"`
	// TLS of the public listener, with a certificate from files or one that the edge obtains itself.
	TLS TLS `yaml:"tls"`
	// What is written to standard error.
	Log Log `yaml:"log"`
	// Spans of calls, exported as OTLP over HTTP.
	Tracing Tracing `yaml:"tracing"`
	// Refuse what is otherwise tolerated for the sake of common clients, such as unknown values of
	// hints. Of the paths beside the contract's those that compact, count a request's tokens or are at
	// some engines only are not served then.
	Strict bool `yaml:"strict"`
	// Read this file, keys, certificates and secrets again when they change. With false they are read
	// on SIGHUP and by `penstock reload` only.
	Watch bool `yaml:"watch"`
	// Set to none, no keys are asked for. This is allowed only while every listener is on loopback,
	// and web pages may call only from cors.origins. Left out, every call needs a key.
	Auth string `yaml:"auth"`
	// How much of the edge a client may use before its call is admitted.
	Limits Limits `yaml:"limits"`
	// The clocks of a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// What a client that waits for a stream is sent while nothing comes from the engine.
	Stream Stream `yaml:"stream"`
	// How often a failed call is sent to another engine.
	Retry Retry `yaml:"retry"`
	// What happens to the running streams of a key, or of one of its hashes, that is taken away: end
	// lets them finish, abort cuts them.
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
	// Where the usage of keys and models is kept over restarts: the path of a file, or a mapping. Left
	// out, usage is kept in memory only.
	Ledger Ledger `yaml:"ledger"`
	// Usage is also counted by end user: the one named by the header below, or else by
	// safety_identifier, user or metadata.user_id of the request. Only a keyed hash is kept, of the
	// 1,000 users with the most usage.
	EndUsers EndUsers `yaml:"end_users"`
	// The keys that seal what clients carry from turn to turn without reading it: reasoning, and the
	// summaries of compacted conversations. Left out, a key is made at the start: edges cannot open
	// each other's reasoning, and no conversation is compacted.
	Seal Seal `yaml:"seal"`
	// A second file with a `keys` list of its own, watched like this one. Its keys are added to those
	// of this file.
	KeysFile string `yaml:"keys_file"`
	// Classes of calls, the first to be served first; left out: interactive, batch. A call of a later
	// class waits behind those of earlier ones until it has waited half of its queue's wait, loses its
	// place in a full queue to them, and leaves each model's reserve free. Requests with service_tier
	// flex are of the last class.
	Classes []Class `yaml:"classes"`
	// The API keys of clients.
	Keys []Key `yaml:"keys"`
	// Identity providers whose tokens (JWT, OpenID Connect) are accepted beside keys.
	// proxy/access/auth/README.md shows Keycloak, Entra and Kubernetes.
	Issuers []Issuer `yaml:"issuers"`
	// Profiles of your own for engines that are not bundled, in the form of the bundled ones.
	Engines []Engine `yaml:"engines"`
	// The engines, each by the address at which it is reached.
	Upstreams []Upstream `yaml:"upstreams"`
	// The models that clients can ask for.
	Models []Model `yaml:"models"`
	// Models that engines list are published for as long as they are listed: those of Ollama, LM
	// Studio and llama.cpp's router, and adapters (LoRA) of vLLM. A model that the file names itself
	// wins.
	Discover []Discover `yaml:"discover"`

	// LeftOut counts the models that are listed and not published, by upstream.
	LeftOut map[string]int `yaml:"-"`

	origin *origin // where the values came from; nil in a File that was made by hand
}

// AuthNone is the value of File.Auth that switches credentials off; it is refused off loopback.
const AuthNone = "none"

// Admin is the operator's listener. An empty Listen switches it off.
type Admin struct {
	// The address of the operator's listener. Empty switches it off.
	Listen string `yaml:"listen"`
	// The bearer token of the operator's listener. It is required when `listen` is not on loopback;
	// /-/ready is answered without it.
	Token Secret `yaml:"token"`
	// Tokens with names and roles, beside `token`, which may do everything.
	Tokens []AdminToken `yaml:"tokens"`
	// Where keys are kept that are made while the edge runs (/-/keys, `penstock key create`), beside
	// those of this file. With fleet.keys they are in the fleet's store, and this is left out.
	Keys AdminKeys `yaml:"keys"`
	// A certificate for the operator's listener, whose address is https then. It is read again when it
	// changes; changing between plain and TLS needs a restart.
	TLS AdminTLS `yaml:"tls"`
}

// Guarded reports whether the operator's listener asks for a token.
func (a *Admin) Guarded() bool { return a.Token != "" || len(a.Tokens) > 0 }

// AdminToken is a token of the operator's listener that has a name, and may not do everything.
type AdminToken struct {
	// The name of the token in the log, where keys are changed with it, and in the fleet, where
	// upstreams are drained with it.
	Name string `yaml:"name"`
	// The token, of at least 16 characters. It has either this or a hash.
	Token Secret `yaml:"token"`
	// The hash of the token, as `penstock key hash` prints it, so that the file does not hold it.
	Hash Secret `yaml:"hash"`
	// What the token may do: read looks at pages and metrics, keys also makes, changes and revokes
	// keys, all also drains upstreams and reloads.
	Role string `yaml:"role"`
}

// AdminKeys say where an edge alone keeps keys that are made while it runs.
type AdminKeys struct {
	// A file that edges write and nobody else: one key in a line, with its hash. Its folder must be
	// writable. Of several edges on one file one writes it, and the others follow it within a second.
	File string `yaml:"file"`
}

// MakesKeys reports whether keys can be made while edges run, in a file or in the fleet's store.
func (f *File) MakesKeys() bool { return f.Admin.Keys.File != "" || f.Fleet.Keys.Enabled() }

// Roles of admin tokens. Each may do what those before it may.
const (
	RoleRead = "read"
	RoleKeys = "keys"
	RoleAll  = "all"
)

// RoleMay reports whether a token of one role may do what asks for another.
func RoleMay(role, needed string) bool {
	roles := words["admin.tokens.role"]
	return slices.Index(roles, role) >= slices.Index(roles, needed)
}

// AdminTLS holds the paths of the certificate pair of the operator's listener. They are joined with
// the file's folder as those of TLS are.
type AdminTLS struct {
	// The file with the listener's certificate and its intermediates. Empty: the listener speaks plain
	// HTTP.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
}

// Enabled reports whether the operator's listener speaks TLS.
func (t AdminTLS) Enabled() bool { return t.Cert != "" }

// TLS holds the paths of the edge's own certificate pair. They are written relative to the file's
// folder; Load and Parse join them with it.
type TLS struct {
	// The file with the edge's certificate and its intermediates. It is read again when it changes;
	// changing between plain and TLS needs a restart.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
	// The file with the certificates that sign those of clients (keys[].certificate).
	ClientCA string `yaml:"client_ca"`
	// Certificates that the edge obtains and renews itself, one for each domain. The authority must
	// reach the edge from the internet. Domains change with a reload, the rest with a restart.
	ACME ACME `yaml:"acme"`

	ClientCAs []byte `yaml:"-"` // the content of ClientCA
}

// Enabled reports whether the public listener speaks TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || t.ACME.Enabled() }

// ACME has the edge obtain and renew its certificates itself, one for each domain, in the place of
// a pair in files.
type ACME struct {
	// The names by which clients reach the edge. Each gets a certificate of its own.
	Domains []string `yaml:"domains"`
	// The address that the authority may write to about the account.
	Email string `yaml:"email"`
	// The URL of the authority's ACME directory.
	Directory string `yaml:"directory"`
	// The folder in which the account's key and the certificates are kept.
	Folder string `yaml:"folder"`
	// The address of a second listener, usually port 80, that answers HTTP-01 challenges and redirects
	// browsers to https. Left out, the challenge is TLS-ALPN-01 on `listen`, which must be reached at
	// port 443.
	HTTP string `yaml:"http"`
	// Agree to the terms of the authority's service. Without it no account is made.
	AcceptTerms bool `yaml:"accept_terms"`
	// The file with the certificates that sign a private authority's directory.
	CA string `yaml:"ca"`
	// The external account binding, for an authority that asks for one.
	EAB ACMEEAB `yaml:"eab"`

	CAs []byte `yaml:"-"` // the content of CA
}

// ACMEEAB binds the account to one that the authority knows already (external account binding).
type ACMEEAB struct {
	// The key identifier that the authority has given for the account.
	KID string `yaml:"kid"`
	// The MAC key of the account in base64url, as the authority gives it.
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

// Log says what is written to standard error.
type Log struct {
	// The least level that is written: debug, info, warn or error.
	Level string `yaml:"level"`
	// One JSON object a line, or text for a terminal (console).
	Format string `yaml:"format"`
	// Write one line for each call, at level info.
	Access bool `yaml:"access"`
	// Answer with the upstream's name and the call's timings in headers.
	DebugHeaders bool `yaml:"debug_headers"`
	// Write the address of the peer in each line. Behind a balancer that is the balancer's.
	Client bool `yaml:"client"`
	// Write a hash of the session that a client names for its call in each line. It is keyed with a
	// secret of the process, so it tells sessions apart and is another one after a restart.
	Sessions bool `yaml:"sessions"`
}

// Catalog says who may read the list of models.
type Catalog struct {
	// Answer GET /v1/models without a key. With false it needs one, as every other call does.
	Public bool `yaml:"public"`
}

// Tracing says where spans go, and of which calls.
type Tracing struct {
	// The OTLP/HTTP endpoint to which spans are sent, such as http://127.0.0.1:4318. Empty switches
	// tracing off.
	OTLP string `yaml:"otlp"`
	// The share of the traces begun here that are recorded; for a call with a traceparent that header
	// decides. Left out: OTEL_TRACES_SAMPLER, or all of them.
	Sample *Percent `yaml:"sample"`
}

// Limits bound what clients may cost before they are admitted.
type Limits struct {
	// The largest JSON body. A larger one is a 413, and so is a compressed one (gzip, zstd) that is
	// larger once decoded, or more than 1 MiB and a hundred times its compressed length.
	RequestBody Bytes `yaml:"request_body"`
	// The largest upload of audio or images. A larger one is a 413.
	UploadBody Bytes `yaml:"upload_body"`
	// The least bytes a second, over 10 s, at which a body must come. A slower one is a 408; large
	// JSON bodies have two minutes besides.
	UploadRate Bytes `yaml:"upload_rate"`
	// The share of the memory limit that all request bodies together may hold. At the bound new calls
	// get a 503.
	BodyMemory Percent `yaml:"body_memory"`
	// The share of the memory limit that engines' replies held in memory may take; each has 64 KiB
	// besides.
	ReplyMemory Percent `yaml:"reply_memory"`
	// How many connections clients may have at once. At the bound an idle one is closed for each new
	// one: first those that have shown no key, and of these the ones from the address that holds most.
	Connections int `yaml:"connections"`
	// How many of these connections one client address may have; of IPv6, one /64. 0 sets no such
	// bound, which is right behind a balancer, whose address all clients share.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// The largest head of a request: its line, its fields, the empty line that ends it and any before
	// it. A larger one is a 431.
	Header Bytes `yaml:"header"`
}

// Timeouts are the clocks of a request. Zero is "no limit" for Total, "at once" for Linger and
// Drain, and leaves FirstEvent and Idle to what the engine shows of its progress; it is refused
// elsewhere.
type Timeouts struct {
	// How long connecting to an upstream may take.
	Connect Duration `yaml:"connect"`
	// From the request being written to the first event of a stream, its header included. 0s: 15m for
	// an engine whose counters show that it works (see `penstock doctor`), 120s for any other. A value
	// of yours applies to all engines.
	FirstEvent Duration `yaml:"first_event"`
	// From the request being written to the end of an answer that is not streamed.
	Answer Duration `yaml:"answer"`
	// How long an answer may pause; comments count as life. 0s: 15m for an engine whose counters show
	// that it works, 60s for any other.
	Idle Duration `yaml:"idle"`
	// How long a whole call may take. 0s: no limit.
	Total Duration `yaml:"total"`
	// How long the head of a request may take to come.
	ClientHeader Duration `yaml:"client_header"`
	// How long a request body may pause.
	ClientBody Duration `yaml:"client_body"`
	// How long a connection may idle between two requests. It should exceed what a balancer in front
	// allows: 620s behind Google's.
	ClientIdle Duration `yaml:"client_idle"`
	// How long one write to a client may take; of a large answer, each 64 KiB.
	Write Duration `yaml:"write"`
	// How long the edge keeps accepting after SIGTERM, so that balancers notice.
	Linger Duration `yaml:"linger"`
	// How long calls may take to end after that. It is also how long a drained or removed upstream
	// keeps its calls before they may be moved.
	Drain Duration `yaml:"drain"`
}

// ModelTimeouts are the clocks that a model may set for itself; nil keeps the file's.
type ModelTimeouts struct {
	// The model's own timeouts.connect. Left out: the file's.
	Connect *Duration `yaml:"connect"`
	// The model's own timeouts.first_event. Left out: the file's.
	FirstEvent *Duration `yaml:"first_event"`
	// The model's own timeouts.answer. Left out: the file's.
	Answer *Duration `yaml:"answer"`
	// The model's own timeouts.idle. Left out: the file's.
	Idle *Duration `yaml:"idle"`
	// The model's own timeouts.total. Left out: the file's.
	Total *Duration `yaml:"total"`
	// The model's own timeouts.write. Left out: the file's.
	Write *Duration `yaml:"write"`
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
	// How long the status line of a stream is held back for its first event, so that a failure can
	// still be a status. 0s: it is sent at once.
	CommitAfter Duration `yaml:"commit_after"`
	// The silence after which a stream is sent a sign of life. The first one, where no event has come
	// yet, is sent with the status line after stream.commit_after. 0s: never.
	Keepalive Duration `yaml:"keepalive"`
	// For answers that are not streamed: the silence after which white space is sent, again and again,
	// for balancers that cut silent connections (45s behind nginx's 60s). The status is 200 then
	// before the result is known, and a failure stands in the JSON body, where not every client looks.
	// 0s: never.
	WholeKeepalive Duration `yaml:"whole_keepalive"`
}

// Retry bounds what a failing fleet may be asked again.
type Retry struct {
	// How many upstreams a call may be sent to, not counting one of a later tier and a fallback model.
	// 1: a failed call is sent to no other upstream of its tier.
	Attempts int `yaml:"attempts"`
	// The share of the calls of the last 10 s that may be sent again, but at least 3. It keeps retries
	// from doubling the load of a failing fleet.
	Budget Percent `yaml:"budget"`
}

// CORS lists the origins that browsers may call from; empty: none.
type CORS struct {
	// Origins of web pages that may call the API, such as https://chat.example.com. Left out: no
	// browser may.
	Origins []string `yaml:"origins"`
}

// Responses are the settings of /v1/responses.
type Responses struct {
	// Serve /v1/responses over WebSocket as well, which is an extension of the contract.
	WebSocket bool `yaml:"websocket"`
}

// Images is the allow-list of hosts for https image URLs; empty: any name, never an IP literal.
type Images struct {
	// Hosts that https image URLs may name. Left out: any name, but never an IP address.
	Hosts []string `yaml:"hosts"`
}

// Seal holds the keys by which is sealed what clients carry without reading it: the first seals, all
// open. Without any, one is made at the start.
type Seal struct {
	// Keys of 32 bytes in base64: the first seals, all open. To change it, put a new key in front and
	// remove the old one when no conversation from before is continued: one that was compacted is lost
	// with its key.
	Keys []Secret `yaml:"keys"`
}

// Upstream is one engine process, or one name that resolves to several.
type Upstream struct {
	// The name of the upstream in deployments, logs and pages.
	Name string `yaml:"name"`
	// The engine's base URL, without /v1.
	URL string `yaml:"url"`
	// Words, such as [h100, eu], by which deployments and `penstock drain` select several upstreams:
	// tag:h100.
	Tags []string `yaml:"tags"`
	// The engine's profile: auto, a bundled one, or one of `engines`. With auto the engine is asked
	// what it is.
	Engine string `yaml:"engine"`
	// The bearer token that is sent to the engine.
	APIKey Secret `yaml:"api_key"`
	// How many calls the engine runs at once: one number for all, or one for each kind, which add up.
	// Left out: what the engine reports, or its profile's value.
	Concurrency Concurrency `yaml:"concurrency"`
	// How fast the engine is compared with others. Twice the weight gets twice the load.
	Weight float64 `yaml:"weight"`
	// How the engine's health is checked.
	Probe Probe `yaml:"probe"`
	// How an https engine is verified, and which certificate the edge shows it.
	TLS UpstreamTLS `yaml:"tls"`
	// Send the engine the class of each call (`classes`) for its own queue: vLLM with
	// --scheduling-policy priority, SGLang with --enable-priority-scheduling. Without that flag vLLM
	// refuses calls that are not of the first class, or serves all alike.
	Priorities bool `yaml:"priorities"`
	// Set to proven where the engine, with its models' templates, continues a last message of the
	// assistant (models[].retry.resume). Left out: by profile.
	Prefill string `yaml:"prefill"`
	// Make each address of the URL's name an upstream of its own, looked up this often: 30s.
	// srv:_http._tcp.vllm, or "srv:_http._tcp.vllm 5s", takes addresses, ports and weights from SRV
	// records (Consul, Nomad, Kubernetes, Swarm).
	Resolve Resolve `yaml:"resolve"`
	// Make each pod that is selected an upstream of its own, in place of resolve. The URL gives
	// scheme, name and port. A pod that is being deleted gets no new call. Only outside of the cluster
	// are server and account needed.
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// How many models an engine that loads on demand keeps in memory (Ollama, LM Studio, llama.cpp's
	// router). Calls for any other model wait in its queue for their turn, so the engine does not swap
	// for each. A smaller number that the engine reports counts instead. 0: no turns.
	Residents int `yaml:"residents"`
	// A hosted API, or an engine of another house. Only calls of keys whose `tiers` include its
	// deployment's tier are sent there.
	External bool `yaml:"external"`
	// The request that wakes the engine when a call finds no engine of its model: vLLM's /wake_up, or
	// a script of yours. It is sent once for all calls that wait, without a body.
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
	// A label selector in kubectl's form: app=vllm,tier!=test.
	Selector string `yaml:"selector"`
	// The name of an InferencePool, whose selector and ports are used in place of `selector`.
	Pool string `yaml:"pool"`
	// The namespace of the pods. Left out: the edge's own.
	Namespace string `yaml:"namespace"`
	// The ports on which the pods' engines listen. Left out: the URL's.
	Ports []int `yaml:"ports"`
	// The URL of the Kubernetes API. Left out: that of the cluster in which the edge runs.
	Server string `yaml:"server"`
	// The folder with token, ca.crt and namespace. Left out: the mounted service account's.
	Account string `yaml:"account"`
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
	// The URL that is asked. Empty: the engine is not woken.
	URL string `yaml:"url"`
	// The method of that request: GET, POST or PUT.
	Method string `yaml:"method"`
	// How long the engine must have been away before it is woken.
	After Duration `yaml:"after"`
}

// Concurrency is written as one number (one shared pool), as {shared, fleet}, or as a map of
// separate pools; zero value: what the engine reports.
type Concurrency struct {
	// One number from which calls of every kind draw.
	Shared int `yaml:"shared"`
	// Slots of calls with neither images nor an audio endpoint. Sound within a chat counts as text.
	Text int `yaml:"text"`
	// Slots of calls with images.
	Vision int `yaml:"vision"`
	// Slots of transcriptions and speech.
	Audio int `yaml:"audio"`
	// Set to exact, the edges of a fleet never exceed `shared` together, at the cost of a message to
	// the store for each call. Left out, they may do so by one or two.
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
	// The page that is probed. Left out: by profile.
	Path string `yaml:"path"`
	// The time between two probes. Five times that, at most 10s, once an engine has had no work for a minute.
	Interval Duration `yaml:"interval"`
	// How long connecting may take, and again how long the answer may. Left out: by profile.
	Timeout Duration `yaml:"timeout"`
	// How many probes in a row must fail until the upstream is down.
	Fall int `yaml:"fall"`
	// How many probes in a row must succeed until it is up again.
	Rise int `yaml:"rise"`
}

// UpstreamTLS says how an https upstream is verified and what the edge shows it. Paths are joined
// with the file's folder as those of TLS are.
type UpstreamTLS struct {
	// The file with the certificates that sign the server's. Left out: those of the system.
	CA string `yaml:"ca"`
	// The file with the certificate that the edge shows.
	Cert string `yaml:"cert"`
	// The file with the private key of that certificate.
	Key string `yaml:"key"`
	// Do not verify the server's certificate.
	Insecure bool `yaml:"insecure"`
}

// Model is one public model.
type Model struct {
	// The name that clients ask for and answers carry.
	ID string `yaml:"id"`
	// What the model is for, which decides its endpoints.
	Kind string `yaml:"kind"`
	// Further names for the model. A trailing * matches any rest, and a variant in brackets is matched
	// too: llama[1m]. Answers carry the id.
	Aliases []string `yaml:"aliases"`
	// The upstreams that serve the model.
	Deployments []Deployment `yaml:"deployments"`
	// How an upstream is chosen: least_loaded takes the one that will answer first, by what it has
	// still to read and has cached; round_robin takes turns. prefix_affinity and two_choices are older
	// names of the first.
	Policy string `yaml:"policy"`
	// Where calls wait when all slots are taken.
	Queue Queue `yaml:"queue"`
	// The share of each upstream's slots, rounded down, that only calls of the first class may take.
	Reserve Percent `yaml:"reserve"`
	// The clocks of this model's calls, where they differ from the file's.
	Timeouts ModelTimeouts `yaml:"timeouts"`
	// What else may be sent again for this model.
	Retry ModelRetry `yaml:"retry"`
	// Models that answer while no upstream of this one can: the first that is able to. Their own
	// fallbacks are not followed.
	Fallback []string `yaml:"fallback"`
	// Another model whose engines get a copy of some calls. Its answers are counted and thrown away
	// (see `penstock canary`).
	Shadow Shadow `yaml:"shadow"`
	// Who may use what an engine has cached of a prompt: shared means every key, per_key only the key
	// that sent it and those of its cache_group.
	PromptCache string `yaml:"prompt_cache"`
	// Whether system messages behind the first turn are folded into one at the start or sent in_place.
	// Left out: by profile.
	SystemMessages string `yaml:"system_messages"`
	// Which reasoning of earlier turns is sent to the engine: loop (that since the user's last text),
	// all or none. Left out: loop, and everything that a client of chat completions sends.
	ReasoningHistory string `yaml:"reasoning_history"`
	// Request members that are refused by default because they steer the engine, such as priority or
	// chat_template, and may be sent to this model. A member of a member is written outer.inner.
	AllowMembers []string `yaml:"allow_members"`

	// What follows is the catalog's, published as given.

	// The model's name for people, published in the catalog.
	Name string `yaml:"name"`
	// The model's owner, published in the catalog.
	OwnedBy string `yaml:"owned_by"`
	// The model's task, published in the catalog.
	Task string `yaml:"task"`
	// When the model was made, as Unix time, published in the catalog.
	Created int64 `yaml:"created"`
	// The most tokens of prompt and answer together. Left out: the smallest that the model's ready
	// engines report.
	ContextLength int `yaml:"context_length"`
	// The most tokens of an answer. Higher requests are lowered to it.
	MaxOutputLength int `yaml:"max_output_length"`
	// Tokens a minute that the model is meant to serve. It is published and not enforced.
	CapacityTPM int `yaml:"capacity_tpm"`
	// The endpoints that serve the model; others answer 400. Left out: by kind. Those that only some
	// engines have answer 404 where no engine of the model has them.
	SupportedEndpoints []string `yaml:"supported_endpoints"`
	// What prompts may hold. Left out: it is not checked.
	InputModalities []string `yaml:"input_modalities"`
	// What answers hold, published in the catalog.
	OutputModalities []string `yaml:"output_modalities"`
	// Context lengths of single modalities where they differ from context_length.
	ModalityContextLengths map[string]int `yaml:"modality_context_lengths"`
	// Limits of calls with images, published in the catalog.
	Vision *Vision `yaml:"vision"`
	// Prices for a million tokens: input, cached_input and output, as text. Spend limits are charged
	// by them; other members are published only.
	Pricing map[string]any `yaml:"pricing"`
	// Features of the model, published in the catalog.
	SupportedFeatures []string `yaml:"supported_features"`
	// The reasoning efforts that calls may ask for; any other is a 400. Left out: it is not checked, and
	// the catalog lists all of them where supported_features has reasoning.
	SupportedReasoningEfforts []string `yaml:"supported_reasoning_efforts"`
	// The date from which clients should use another model. Answers carry it in the header Deprecation
	// (RFC 9745).
	Deprecated time.Time `yaml:"deprecated"`
	// The date until which the model is meant to be served. Answers carry it in the header Sunset (RFC
	// 8594); calls are still served after it.
	Sunset time.Time `yaml:"sunset"`

	Discovered bool   `yaml:"-"` // an engine lists it, and the file does not name it
	Parent     string `yaml:"-"` // of a discovered adapter: the engine's name of its base
}

// Shadow is what is copied to another model's engines.
type Shadow struct {
	// The id of the model whose engines get the copies. Empty: no call is copied.
	Model string `yaml:"model"`
	// The share of chat conversations that are copied, each with all of its turns.
	Share Percent `yaml:"share"`
}

// ModelRetry is what else may be sent again for a model.
type ModelRetry struct {
	// How often another engine may continue a stream whose engine was lost, has stalled or was drained
	// for timeouts.drain. 0: such a stream ends with an error.
	Resume int `yaml:"resume"`
}

// Deployment binds a model to an upstream under the name that the engine knows.
type Deployment struct {
	// The name of an upstream, or a group: gpu-* selects all whose names begin so, tag:h100 all with
	// that tag. An upstream that the list names itself is in no group.
	Upstream string `yaml:"upstream"`
	// The engine's own name for the model. Left out: the model's id.
	Served string `yaml:"served"`
	// Deployments of tier 0 serve always, those of a higher tier only while no upstream of the tiers
	// below takes calls.
	Tier int `yaml:"tier"`
	// When a tier above 0 serves, the same for all of the tier: full means that the lower tiers are
	// full or out (with a queue: once the call has waited there), down only that they are out. Left
	// out: full.
	When string `yaml:"when"`
	// Make an arm of this deployment, or group: it gets this share of the model's conversations and no
	// other calls. Deployments without a share get the rest. 0%: none yet.
	Traffic *Percent `yaml:"traffic"`

	Arm string `yaml:"-"` // its name where there is Traffic: the upstream or group, as the file has it
}

// Discover publishes models that the engines of an upstream list, for as long as they do.
type Discover struct {
	// The name of the upstream whose models are published.
	Upstream string `yaml:"upstream"`
	// Which of its models are published: one name, or a pattern that ends in *.
	Match string `yaml:"match"`
	// A prefix of their names in the catalog.
	Prefix string `yaml:"prefix"`
	// The kind of these models. Left out: what the engine reports, or else chat.
	Kind string `yaml:"kind"`
	// The queue of each of these models. Adapters share their base model's.
	Queue Queue `yaml:"queue"`
}

// Queue is the short wait for a full pool; zero depth: a full pool answers 429 at once.
type Queue struct {
	// How many calls may wait for a slot. 0: a full pool answers 429 at once.
	Depth int `yaml:"depth"`
	// How long a call may wait before it gets a 429. 0s: no call waits. With a depth it has to be given.
	Wait Duration `yaml:"wait"`
}

// Vision is the catalog's vision object; all numbers as in the contract.
type Vision struct {
	// The longest edge of an image in pixels, published as advice.
	MaxImageEdge int `yaml:"max_image_edge"`
	// The most pixels of an image. More is a 400.
	MaxPixels int `yaml:"max_pixels"`
	// The most tokens of an answer to a call with images.
	MaxTokens int `yaml:"max_tokens"`
	// The context length of calls with images.
	ContextLength int `yaml:"context_length"`
	// The Retry-After, in seconds, of a call that finds no slot for images.
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
)

// Policies of a route.
const (
	PolicyLeastLoaded    = "least_loaded"
	PolicyTwoChoices     = "two_choices"
	PolicyRoundRobin     = "round_robin"
	PolicyPrefixAffinity = "prefix_affinity"
)
