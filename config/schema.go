package config

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"
)

// File is a complete configuration, in which defaults are filled in and references are resolved. It
// must not be modified after Load or Parse.
type File struct {
	// The public API listens on this address. The default port is 4000, because engines use 8000,
	// 8080, 11434 and 30000. unix:/PATH is a Unix socket to which the edge's user and group may
	// connect. unix:/PATH|0666 sets another mode.
	Listen string `yaml:"listen"`
	// Connections from these networks, such as 10.0.0.0/8, come from TCP proxies and must begin
	// with a PROXY protocol header (version 1 or 2). The edge uses the address in the header as the
	// client's address, for limits and the log. It closes and counts connections from these
	// networks without such a header, and connections from other peers with one. The value unix
	// adds all peers at a Unix socket.
	ListenTrusted []string `yaml:"listen_trusted"`
	// With true, the edge uses the X-Request-Id header of requests from the peers in
	// listen_trusted. It logs the header as proxy_request_id and returns it to the client as
	// X-Request-Id. Request-Id still contains the id that the edge created. Set this only for
	// proxies that set the header themselves, such as HAProxy with unique-id-header. Other proxies
	// pass on the client's header. The edge ignores a value that is longer than 128 bytes, or that
	// contains characters other than letters, digits and . _ - : / + = @.
	TrustRequestID bool `yaml:"trust_request_id"`
	// These settings configure the operator's listener, which serves /metrics,
	// /status, /-/ready and the commands that change a running edge.
	Admin Admin `yaml:"admin"`
	// These settings configure TLS for the public listener. The certificate comes from files, or
	// the edge obtains it by ACME.
	TLS TLS `yaml:"tls"`
	// These settings configure what the edge writes to standard error.
	Log Log `yaml:"log"`
	// The edge exports the spans of calls as OTLP over HTTP.
	Tracing Tracing `yaml:"tracing"`
	// With true, the edge refuses requests that it otherwise tolerates for common clients, such as
	// those with unknown values of hints. It then serves no paths outside the contract: those that
	// compact conversations or count a request's tokens, and those that only some engines support.
	Strict bool `yaml:"strict"`
	// With true, the edge rereads this file, keys, certificates and secrets when they change. With
	// false, it rereads them only on SIGHUP and by `penstock reload`.
	Watch bool `yaml:"watch"`
	// With none, the edge requires no keys. This is allowed only while every listener is on
	// loopback, and web pages may call the API only from cors.origins. By default every call needs
	// a key.
	Auth string `yaml:"auth"`
	// These settings limit how much of the edge a client may use before its call is admitted.
	Limits Limits `yaml:"limits"`
	// These are the timeouts for a call.
	Timeouts Timeouts `yaml:"timeouts"`
	// These settings define what a waiting client receives while the engine sends nothing.
	Stream Stream `yaml:"stream"`
	// These settings limit how often the edge sends a failed call to another engine.
	Retry Retry `yaml:"retry"`
	// This setting decides what happens to running streams when their key, or one of the key's
	// hashes, is removed. end: the streams continue to their end. abort: the edge closes the
	// streams.
	OnRevoke string `yaml:"on_revoke"`
	// These settings define which web pages may call the API.
	CORS CORS `yaml:"cors"`
	// These settings define who may read the list of models.
	Catalog Catalog `yaml:"catalog"`
	// These are the settings of /v1/responses.
	Responses Responses `yaml:"responses"`
	// These settings limit the hosts of image URLs in prompts.
	Images Images `yaml:"images"`
	// These settings are for more than one edge with the same keys and engines.
	Fleet Fleet `yaml:"fleet"`
	// The edge stores the usage of keys and models here, so that the usage survives restarts. The
	// value is the path of a file, or a mapping. By default usage is only in memory.
	Ledger Ledger `yaml:"ledger"`
	// The edge also counts usage by end user. It takes the user from the header below or, if that
	// is missing, from safety_identifier, user or metadata.user_id in the request. It stores only a
	// keyed hash, for the 1,000 users with the most usage.
	EndUsers EndUsers `yaml:"end_users"`
	// These keys encrypt data that clients return from turn to turn without reading it: reasoning,
	// and the summaries of compacted conversations. By default each edge creates a key when it
	// starts. Edges then cannot decrypt each other's reasoning, and conversations are not
	// compacted.
	Seal Seal `yaml:"seal"`
	// This second file contains another `keys` list. Its keys are added to those in this file, and
	// the edge also watches it.
	KeysFile string `yaml:"keys_file"`
	// These are the classes of calls, in order of precedence. The default is interactive, batch. A
	// call of a later class waits behind calls of earlier classes until it has waited for half of
	// its queue's maximum wait. In a full queue, it is evicted to make room for calls of earlier
	// classes. It cannot use a model's reserve. Requests with service_tier flex belong to the last
	// class.
	Classes []Class `yaml:"classes"`
	// These are the API keys of clients.
	Keys []Key `yaml:"keys"`
	// Each group contains keys that share limits, for example the keys of a team. Each call counts
	// for its key and for the key's group.
	Groups []Group `yaml:"groups"`
	// The edge accepts tokens (JWT, OpenID Connect) of these identity providers in addition to
	// keys. proxy/access/auth/README.md shows Keycloak, Entra and Kubernetes.
	Issuers []Issuer `yaml:"issuers"`
	// These services decide about each call before it goes to an engine, or receive copies of
	// calls. They are called in this order. proxy/request/hook/README.md describes the format of
	// decisions, and proxy/request/hook/copies/README.md the format of copies.
	Hooks []Hook `yaml:"hooks"`
	// These profiles describe engines that are not bundled, in the format of the bundled profiles.
	Engines []Engine `yaml:"engines"`
	// These are the engines and their addresses.
	Upstreams []Upstream `yaml:"upstreams"`
	// These are the models that clients can request.
	Models []Model `yaml:"models"`
	// The edge publishes these models for as long as an engine lists them: models of Ollama, LM
	// Studio and llama.cpp's router, and adapters (LoRA) of vLLM. Models in this file take
	// precedence.
	Discover []ModelDiscovery `yaml:"discover"`

	// LeftOut counts, by upstream, the models that are listed but not published.
	LeftOut map[string]int `yaml:"-"`

	origin *fileReadRecord // where the values come from; nil if the File was not read from a text
}

// AuthNone is the value of File.Auth that disables keys. Validate rejects it unless every listener
// is on loopback.
const AuthNone = "none"

// Admin configures the operator's listener. An empty Listen disables it.
type Admin struct {
	// The operator's listener uses this address. It may be a Unix socket, as in `listen`. An empty
	// address disables the listener.
	Listen string `yaml:"listen"`
	// This is the bearer token of the operator's listener. It is required if the listener is not on
	// loopback. /-/ready needs no token.
	Token Secret `yaml:"token"`
	// These are additional tokens with names and roles. `token` permits everything.
	Tokens []AdminToken `yaml:"tokens"`
	// Here the edge stores keys that are made while it runs (/-/keys, `penstock key create`). If
	// fleet.keys is set, these keys are in the fleet's store, and this setting must be omitted.
	Keys AdminKeys `yaml:"keys"`
	// If there is a certificate, the operator's listener uses HTTPS. The edge rereads the
	// certificate when it changes. Enabling or disabling TLS needs a restart.
	TLS AdminTLS `yaml:"tls"`
}

// RequiresToken reports whether the operator's listener requires a token.
func (a *Admin) RequiresToken() bool { return a.Token != "" || len(a.Tokens) > 0 }

// AdminToken is a token of the operator's listener with a name and a role.
type AdminToken struct {
	// The token has this name. The name appears in the log for changes of keys, and in the fleet
	// for drained upstreams.
	Name string `yaml:"name"`
	// This is the token, which must have at least 16 characters. Set either this or `hash`.
	Token Secret `yaml:"token"`
	// This is the hash of the token, as printed by `penstock key hash`. If you set it, the token
	// itself does not appear in this file.
	Hash Secret `yaml:"hash"`
	// The role defines what the token permits. read: pages and metrics. keys: also creating,
	// changing and revoking keys. all: also drains and reloads.
	Role string `yaml:"role"`
}

// AdminKeys configures where an edge without a store saves keys that are made at run time.
type AdminKeys struct {
	// Only edges write this file. Each line contains one key with its hash. The file's folder must
	// be writable. If more than one edge uses the same file, one of them writes it, and the others
	// read each change within a second.
	File string `yaml:"file"`
}

// CanCreateKeys reports whether keys can be made at run time, in a file or in the fleet's store.
func (f *File) CanCreateKeys() bool { return f.Admin.Keys.File != "" || f.Fleet.Keys.Enabled() }

// Roles of admin tokens. Each role includes the rights of the previous ones.
const (
	AdminRoleRead = "read"
	AdminRoleKeys = "keys"
	AdminRoleAll  = "all"
)

// AdminRoleAllows reports whether role has at least the rights of needed.
func AdminRoleAllows(role, needed string) bool {
	roles := allowedValues["admin.tokens.role"]
	return slices.Index(roles, role) >= slices.Index(roles, needed)
}

// AdminTLS contains the paths of the operator listener's certificate pair.
type AdminTLS struct {
	// This file contains the listener's certificate and its intermediates. If it is omitted, the
	// listener uses plain HTTP.
	Cert string `yaml:"cert"`
	// This file contains the private key of the certificate.
	Key string `yaml:"key"`
}

// Enabled reports whether the operator's listener uses TLS.
func (t AdminTLS) Enabled() bool { return t.Cert != "" }

// TLS contains the paths of the edge's certificate pair. In a configuration file, the paths are
// relative to its folder. Load and Parse resolve them.
type TLS struct {
	// This file contains the edge's certificate and its intermediates. The edge rereads it when it
	// changes. Enabling or disabling TLS needs a restart.
	Cert string `yaml:"cert"`
	// This file contains the private key of the certificate.
	Key string `yaml:"key"`
	// This file contains the CA certificates that sign client certificates (keys[].certificate).
	ClientCA string `yaml:"client_ca"`
	// The edge obtains and renews one certificate for each of the domains. The authority must be
	// able to reach the edge from the internet. A reload applies changed domains, and a restart
	// applies the other settings.
	ACME ACME `yaml:"acme"`

	ClientCAs []byte `yaml:"-"` // content of ClientCA
}

// Enabled reports whether the public listener uses TLS.
func (t *TLS) Enabled() bool { return t.Cert != "" || t.ACME.Enabled() }

// ACME configures certificates that the edge obtains and renews. There is one certificate for each
// domain.
type ACME struct {
	// Clients reach the edge by these names. The edge obtains a separate certificate for each of
	// them.
	Domains []string `yaml:"domains"`
	// The authority uses this mail address for the edge's account.
	Email string `yaml:"email"`
	// This is the URL of the authority's ACME directory.
	Directory string `yaml:"directory"`
	// The edge stores the account's key and the certificates in this folder.
	Folder string `yaml:"folder"`
	// A second listener on this address, usually port 80, answers HTTP-01 challenges and redirects
	// browsers to HTTPS. By default the edge uses TLS-ALPN-01 on `listen`, which must be reachable
	// at port 443.
	HTTP string `yaml:"http"`
	// Set this to true to agree to the authority's terms of service. If it is not true, the edge
	// creates no account.
	AcceptTerms bool `yaml:"accept_terms"`
	// This file contains the CA certificates for the directory of a private authority.
	CA string `yaml:"ca"`
	// These settings define the external account binding, for authorities that require one.
	EAB ACMEEAB `yaml:"eab"`

	CAs []byte `yaml:"-"` // content of CA
}

// ACMEEAB binds the ACME account to an existing account at the authority (external account
// binding).
type ACMEEAB struct {
	// The authority issued this key identifier for the account.
	KID string `yaml:"kid"`
	// This is the MAC key of the account in base64url, as issued by the authority.
	Key Secret `yaml:"key"`
}

// Enabled reports whether the edge obtains certificates by ACME.
func (a *ACME) Enabled() bool { return len(a.Domains) > 0 }

// MACKey returns the key of the external account binding, or nil if there is none.
func (e *ACMEEAB) MACKey() ([]byte, error) {
	if e.Key == "" {
		return nil, nil
	}
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(e.Key.Value(), "="))
}

// Log configures what is written to standard error.
type Log struct {
	// The edge writes log entries at this level and above: debug, info, warn or error.
	Level string `yaml:"level"`
	// With json, each log line is a JSON object. With console, it is text for a terminal.
	Format string `yaml:"format"`
	// With true, the edge logs one line for each call, at level info.
	Access bool `yaml:"access"`
	// With true, the edge sends the upstream's name and the call's timings in response headers.
	DebugHeaders bool `yaml:"debug_headers"`
	// With true, each line contains the peer's address. Behind a balancer this is the balancer's
	// address. At a Unix socket it is the word unix.
	Client bool `yaml:"client"`
	// With true, each line contains a hash of the session that the client names. The hash
	// distinguishes sessions until the edge restarts, because its secret is new in each process.
	Sessions bool `yaml:"sessions"`
}

// Catalog configures who may read the list of models.
type Catalog struct {
	// With true, GET /v1/models needs no key. With false, it needs a key like every other call.
	Public bool `yaml:"public"`
}

// Tracing configures where spans go. OTEL_TRACES_SAMPLER decides which traces are recorded.
type Tracing struct {
	// The edge sends spans to this OTLP/HTTP endpoint, such as http://127.0.0.1:4318. An empty
	// value disables tracing.
	OTLP string `yaml:"otlp"`
}

// Limits contains the limits on what clients can use before their calls are admitted.
type Limits struct {
	// JSON bodies may have at most this size. A larger body gets a 413. A compressed body (gzip,
	// zstd) also gets a 413 if its decoded size exceeds this limit, or exceeds both 1 MiB and a
	// hundred times the compressed size.
	RequestBody Bytes `yaml:"request_body"`
	// Uploads of audio or images may have at most this size. A larger upload gets a 413.
	UploadBody Bytes `yaml:"upload_body"`
	// Bodies must arrive with at least this many bytes per second, measured over 10 s. A slower
	// body gets a 408. Large JSON bodies have two additional minutes.
	UploadRate Bytes `yaml:"upload_rate"`
	// All request bodies may use this share of the memory limit in total. When the share is used
	// up, new calls get a 503.
	BodyMemory Percent `yaml:"body_memory"`
	// Buffered responses of engines may use this share of the memory limit, in addition to 64 KiB
	// for each response.
	ReplyMemory Percent `yaml:"reply_memory"`
	// Clients may have at most this many connections. When the limit is reached, the edge closes an
	// idle connection for each new one. It first closes connections that have presented no key,
	// starting with those from the address that has the most connections.
	Connections int `yaml:"connections"`
	// A single client address may have at most this many connections. For IPv6, the limit applies
	// to a /64 network. 0 means no limit. Use 0 behind a balancer, because all clients then have
	// the balancer's address.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// The head of a request may have at most this size, including the request line, the header
	// fields and all empty lines. A larger head gets a 431.
	Header Bytes `yaml:"header"`
}

// Timeouts are the timeouts of a call. For Total, zero means no limit. For Linger and Drain, zero
// means no waiting. For FirstEvent and Idle, zero means a limit that depends on whether the engine
// reports its progress. The other timeouts must not be zero.
type Timeouts struct {
	// Connecting to an upstream may take this long.
	Connect Duration `yaml:"connect"`
	// After the request was written, the first event of a stream may take this long. The time
	// includes the response header. 0s means 15m for an engine whose counters show progress (see
	// `penstock doctor`), and 120s for other engines. Any other value applies to all engines.
	FirstEvent Duration `yaml:"first_event"`
	// An answer that is not streamed may take this long, from the end of the request to the end of
	// the answer.
	Answer Duration `yaml:"answer"`
	// An answer may pause for this long. Comments in a stream count as activity. 0s means 15m for
	// an engine whose counters show progress, and 60s for other engines.
	Idle Duration `yaml:"idle"`
	// A whole call may take this long, the wait in the queue included. 0s means no limit.
	Total Duration `yaml:"total"`
	// The head of a request may take this long to arrive.
	ClientHeader Duration `yaml:"client_header"`
	// A request body may pause for this long.
	ClientBody Duration `yaml:"client_body"`
	// A connection may be idle between two requests for this long. It should be longer than the
	// idle timeout of a balancer in front of the edge, for example 620s behind Google's.
	ClientIdle Duration `yaml:"client_idle"`
	// One write to a client may take this long. The edge writes a large answer in pieces of 64 KiB.
	Write Duration `yaml:"write"`
	// After SIGTERM, the edge still accepts connections for this long, so that balancers can notice
	// that it is shutting down.
	Linger Duration `yaml:"linger"`
	// After timeouts.linger, running calls may take this long to end. At a drained or removed
	// upstream, running calls also stay for this long before they may move to another upstream. A call
	// that cannot move is not cut off, and continues at the same upstream until it ends.
	Drain Duration `yaml:"drain"`
}

// ModelTimeouts are the timeouts of a model. If a member is nil, the file's timeout applies.
type ModelTimeouts struct {
	// This replaces timeouts.connect for the model.
	Connect *Duration `yaml:"connect"`
	// This replaces timeouts.first_event for the model.
	FirstEvent *Duration `yaml:"first_event"`
	// This replaces timeouts.answer for the model.
	Answer *Duration `yaml:"answer"`
	// This replaces timeouts.idle for the model.
	Idle *Duration `yaml:"idle"`
	// This replaces timeouts.total for the model.
	Total *Duration `yaml:"total"`
	// This replaces timeouts.write for the model.
	Write *Duration `yaml:"write"`
}

// ApplyTo returns t with the timeouts that m sets.
func (m ModelTimeouts) ApplyTo(t Timeouts) Timeouts {
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

// Stream configures the timers while a client waits. Zero disables a timer.
type Stream struct {
	// The edge delays the status line of a stream until its first event, but at most for this long.
	// During this delay, it can still answer a failure with an error status. With 0s, it waits for
	// the first event.
	CommitAfter Duration `yaml:"commit_after"`
	// When the engine has been silent for this long, the edge sends a keep-alive on the stream.
	// Before the first event, the first keep-alive is sent together with the status line, after
	// stream.commit_after. 0s disables keep-alives.
	Keepalive Duration `yaml:"keepalive"`
	// While a client waits for an answer that is not streamed, the edge sends white space at this
	// interval. This is for balancers that close silent connections. For example, use 45s behind
	// nginx, which closes them after 60s. The status 200 is then sent before the result is known. A
	// failure appears only in the JSON body, which not every client checks. 0s disables this white
	// space.
	WholeKeepalive Duration `yaml:"whole_keepalive"`
}

// Retry limits how often the edge retries calls.
type Retry struct {
	// The edge sends a call to at most this many upstreams in a tier. It may also use one upstream
	// in a later tier and one of a fallback model. With 1, a failed call is not sent to another
	// upstream of its tier.
	Attempts int `yaml:"attempts"`
	// The edge may retry this share of the calls of the last 10 s, and at least 3 calls. The limit
	// prevents retries from doubling the load on a failing fleet.
	Budget Percent `yaml:"budget"`
}

// CORS lists the origins from which browsers may call. An empty list allows none.
type CORS struct {
	// Web pages with these origins, such as https://chat.example.com, may call the API. By default
	// none may.
	Origins []string `yaml:"origins"`
}

// Responses configures /v1/responses.
type Responses struct {
	// With true, the edge also serves /v1/responses over WebSocket, which extends the contract.
	WebSocket bool `yaml:"websocket"`
}

// Images lists the hosts that https image URLs may name. An empty list allows all public host
// names, but no IP addresses.
type Images struct {
	// The https image URLs in prompts may name these hosts. By default they may name any public
	// host. They cannot be IP addresses. Names without a dot, and names in .corp, .home,
	// .home.arpa,
	// .internal, .intra, .intranet, .lan, .local, .localdomain, .localhost, .private and .svc need
	// an entry here. In a Kubernetes cluster, name the hosts: NAME.NAMESPACE looks like a public
	// name there.
	Hosts []string `yaml:"hosts"`
}

// Seal contains the keys for data that clients return from turn to turn without reading it. The
// edge encrypts with the first key, and can decrypt with any of them. If no key is configured, the
// edge creates one when it starts.
type Seal struct {
	// These are keys of 32 bytes in base64. The edge encrypts with the first one, and can decrypt with
	// any of them. To change the key, insert a new one at the front of the list. Remove the old key
	// once the conversations from its time have ended, because a compacted conversation cannot be read
	// without its key.
	Keys []Secret `yaml:"keys"`
}

// Upstream is an engine process, or a name that resolves to more than one process.
type Upstream struct {
	// The upstream has this name in deployments, logs and pages.
	Name string `yaml:"name"`
	// This is the engine's base URL without /v1. For an engine at a Unix socket (vLLM's --uds) it
	// is unix:/PATH, or unix:/PATH:/BASE with a base path.
	URL string `yaml:"url"`
	// These are words such as [h100, eu]. In deployments and `penstock drain`, tag:h100 selects all
	// upstreams with the tag h100.
	Tags []string `yaml:"tags"`
	// This is the engine's profile: auto, a bundled profile, or one of `engines`. With auto, the
	// edge detects the engine.
	Engine string `yaml:"engine"`
	// The edge sends this bearer token to the engine.
	APIKey Secret `yaml:"api_key"`
	// The engine runs this many calls concurrently. The value is one number for all calls, or a
	// number for each kind of call. Separate numbers add up. The default is the number that the
	// engine reports, or that of its profile.
	Concurrency Concurrency `yaml:"concurrency"`
	// This is the engine's speed relative to others. An engine with twice the weight gets twice the
	// load.
	Weight float64 `yaml:"weight"`
	// These settings configure the health checks.
	Probe Probe `yaml:"probe"`
	// These settings define how the edge verifies an https engine, and which certificate it
	// presents.
	TLS UpstreamTLS `yaml:"tls"`
	// With true, the edge sends each call's class (`classes`) to the engine, and the engine orders its
	// queue by class. This is for vLLM with --scheduling-policy priority, and SGLang with
	// --enable-priority-scheduling. Without its flag, vLLM refuses calls of later classes or treats
	// all classes alike.
	Priorities bool `yaml:"priorities"`
	// Set this to proven if the engine, with its models' templates, continues a final assistant
	// message (models[].retry.resume). The default depends on the profile.
	Prefill string `yaml:"prefill"`
	// The edge looks up the host name of the URL at this interval, such as 30s, and treats each
	// address as a separate upstream. With srv:_http._tcp.vllm, or "srv:_http._tcp.vllm 5s", it
	// uses the addresses, ports and weights of SRV records (Consul, Nomad, Kubernetes, Swarm).
	Resolve Resolve `yaml:"resolve"`
	// Use this instead of resolve to treat each selected pod as a separate upstream. The URL sets
	// the scheme, name and port. A pod that is being deleted gets no new calls. server and account
	// are needed only outside the cluster.
	Kubernetes Kubernetes `yaml:"kubernetes"`
	// An engine that loads models on demand (Ollama, LM Studio, llama.cpp's router) keeps this many
	// models in memory. Calls for another model wait in that model's queue for their turn, so that
	// the engine does not swap models for each call. If the engine reports a smaller number, that
	// number applies. 0 means no turns.
	Residents int `yaml:"residents"`
	// Set this to true for a hosted API or an engine of another organisation. It gets only calls of
	// keys whose `tiers` contain its deployment's tier.
	External bool `yaml:"external"`
	// The edge sends this request to wake the engine when no engine is available for a call's
	// model. It may call vLLM's /wake_up, or a script that you provide. The edge sends one request
	// for all waiting calls. The request has no body.
	Wake  Wake `yaml:"wake"`
	Edges int  `yaml:"-"` // number of edges that share the slots (Fleet.Edges)
	Lists bool `yaml:"-"` // Discover publishes the upstream's models
}

// DescribeDiscovery describes how the upstream's engines are found. It returns "" if the URL is
// that of the engine itself.
func (u *Upstream) DescribeDiscovery() string {
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
	case k.IsSet():
		return fmt.Sprintf("the pods with %s in %s%s", k.Selector, where, ports)
	case u.Resolve.SRV != "":
		return fmt.Sprintf("the SRV records of %s, looked up every %s", u.Resolve.SRV, u.Resolve.Every)
	case u.Resolve.Every > 0:
		return fmt.Sprintf("the addresses of %s, looked up every %s", u.URL, u.Resolve.Every)
	}
	return ""
}

// MountedAccountFolder is where Kubernetes mounts a pod's service account.
const MountedAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Kubernetes selects the pods of an upstream's engines. The upstream's URL sets the scheme, the
// name and the port.
type Kubernetes struct {
	// This label selector selects the pods, in kubectl's format: app=vllm,tier!=test.
	Selector string `yaml:"selector"`
	// The selector and ports of this InferencePool replace `selector` and `ports`.
	Pool string `yaml:"pool"`
	// The pods are in this namespace. The default is the namespace in which the edge runs.
	Namespace string `yaml:"namespace"`
	// The engines in the pods listen on these ports. The default is the port of the URL.
	Ports []int `yaml:"ports"`
	// This is the URL of the Kubernetes API. The default is the API of the cluster in which the
	// edge runs.
	Server string `yaml:"server"`
	// This folder contains the files token, ca.crt and namespace. The default is the folder of the
	// mounted service account.
	Account string `yaml:"account"`
}

// IsSet reports whether any setting is present.
func (k *Kubernetes) IsSet() bool {
	return k.Selector != "" || k.Pool != "" || k.Namespace != "" || len(k.Ports) > 0 || k.Server != "" || k.Account != ""
}

// String identifies the selected pods and their API server. Different selections have different
// strings.
func (k *Kubernetes) String() string {
	if !k.IsSet() {
		return ""
	}
	return fmt.Sprintf("%q", []string{k.Selector, k.Pool, k.Namespace, fmt.Sprint(k.Ports), k.Server, k.Account})
}

// Wake is a request that wakes a sleeping or stopped engine. It is sent to vLLM's /wake_up, or to a
// script that the operator provides. It has no body and contains no client data.
type Wake struct {
	// The edge sends the request to this URL. If it is omitted, the edge does not wake the engine.
	URL string `yaml:"url"`
	// This is the method of the request: GET, POST or PUT.
	Method string `yaml:"method"`
	// The edge wakes the engine only after it has been down for this long.
	After Duration `yaml:"after"`
}

// Concurrency is written as one number (a shared pool), as {shared, fleet}, or as a map of separate
// pools. The zero value means that the number reported by the engine applies.
type Concurrency struct {
	// All kinds of calls share this many slots.
	Shared int `yaml:"shared"`
	// Calls without images use these slots, except calls to audio endpoints. Audio in a chat counts
	// as text.
	Text int `yaml:"text"`
	// Calls with images use these slots.
	Vision int `yaml:"vision"`
	// Transcriptions and speech use these slots.
	Audio int `yaml:"audio"`
	// With exact, the edges of a fleet never exceed `shared` in total, at the cost of one message
	// to the store per call. By default they may exceed it by one or two.
	Fleet string `yaml:"fleet"`
}

// IsExact reports whether the edges of a fleet never exceed the slots in total.
func (c Concurrency) IsExact() bool { return c.Fleet == FleetExact && c.Shared > 0 }

// FleetExact is the only value of Concurrency.Fleet.
const FleetExact = "exact"

// IsSet reports whether a concurrency is configured.
func (c Concurrency) IsSet() bool { return c != Concurrency{} }

// Probe configures an upstream's health checks. The engine's profile sets members that are zero.
type Probe struct {
	// The edge probes this page. The default depends on the profile.
	Path string `yaml:"path"`
	// This is the time between two probes. Once an engine has had no calls for a minute, the
	// interval is five times as long, but at most 10s.
	Interval Duration `yaml:"interval"`
	// Connecting may take this long, and then the answer may take this long again. The default depends
	// on the profile. If an engine does not answer probes while it works, set a timeout that is longer
	// than the engine's answers take. Otherwise the engine counts as stopped after a minute.
	Timeout Duration `yaml:"timeout"`
	// The upstream goes down after this many failed probes in a row.
	Fall int `yaml:"fall"`
	// The upstream comes up again after this many successful probes in a row.
	Rise int `yaml:"rise"`
}

// UpstreamTLS configures how the edge verifies an https upstream, and which certificate it
// presents. Paths are relative to the file's folder.
type UpstreamTLS struct {
	// This file contains the CA certificates that sign the server's certificate. The default is the
	// system's root certificates.
	CA string `yaml:"ca"`
	// This file contains the certificate that the edge presents.
	Cert string `yaml:"cert"`
	// This file contains the private key of that certificate.
	Key string `yaml:"key"`
	// With true, the edge does not verify the server's certificate.
	Insecure bool `yaml:"insecure"`
}

// Model is a public model.
type Model struct {
	// Clients request the model by this id, and answers contain it.
	ID string `yaml:"id"`
	// This is the model's purpose, which determines its endpoints.
	Kind string `yaml:"kind"`
	// Clients may also request the model by these names. A trailing * matches any suffix. A name
	// with a variant in brackets also matches, as in llama[1m]. Answers contain the id.
	Aliases []string `yaml:"aliases"`
	// These upstreams serve the model.
	Deployments []Deployment `yaml:"deployments"`
	// The policy picks an upstream for each call. least_loaded picks the upstream that should
	// answer first. It considers the prompts that an upstream still has to read, and those in the
	// upstream's cache. round_robin uses the upstreams in turn. prefix_affinity and two_choices are
	// older names of least_loaded.
	Policy string `yaml:"policy"`
	// These settings define how calls wait if all slots are in use.
	Queue Queue `yaml:"queue"`
	// Only calls of the first class may use this share of each upstream's slots. It is rounded
	// down.
	Reserve Percent `yaml:"reserve"`
	// These timeouts replace those of the file for the model's calls.
	Timeouts ModelTimeouts `yaml:"timeouts"`
	// These settings define additional retries for this model.
	Retry ModelRetry `yaml:"retry"`
	// These models answer calls while no upstream of this model can. The edge uses the first one
	// that can answer, and ignores that model's own fallbacks.
	Fallback []string `yaml:"fallback"`
	// The engines of another model get copies of some of this model's calls. The edge counts their
	// answers and then discards them (see `penstock canary`).
	Shadow Shadow `yaml:"shadow"`
	// These keys may use a prompt that is in an engine's cache. shared: all keys. per_key: only the
	// key that sent the prompt, and keys of the same cache_group.
	PromptCache string `yaml:"prompt_cache"`
	// This defines how the edge sends system messages after the first turn. fold: it merges them
	// into the system message at the start. in_place: it leaves them where they are. The default is
	// fold.
	SystemMessages string `yaml:"system_messages"`
	// This defines which reasoning from earlier turns the edge sends to the engine. loop: only the
	// reasoning since the user's last text. all: all reasoning. none: no reasoning. The default is
	// loop. For clients of chat completions, the default is all the reasoning that they send.
	ReasoningHistory string `yaml:"reasoning_history"`
	// Requests for this model may contain these members, such as priority or chat_template. By
	// default the edge refuses them, because they control the engine. outer.inner is a member of
	// the object outer.
	AllowMembers []string `yaml:"allow_members"`

	// The catalog publishes the following members unchanged.

	// The catalog publishes this as the model's display name.
	Name string `yaml:"name"`
	// The catalog publishes this as the model's owner.
	OwnedBy string `yaml:"owned_by"`
	// The catalog publishes this as the model's task.
	Task string `yaml:"task"`
	// The catalog publishes this as the model's creation time, in Unix time.
	Created int64 `yaml:"created"`
	// A prompt and its answer may have this many tokens in total. The default is the smallest
	// number reported by the model's available engines.
	ContextLength int `yaml:"context_length"`
	// An answer may have this many tokens. If a request contains a higher limit, the edge lowers
	// it.
	MaxOutputLength int `yaml:"max_output_length"`
	// The model is meant to serve this many tokens per minute. The catalog publishes the number,
	// and the edge does not enforce it.
	CapacityTPM int `yaml:"capacity_tpm"`
	// These endpoints serve the model, and all others answer 400. The default depends on the kind.
	// An endpoint that only some engines support answers 404 if no engine of the model supports it.
	SupportedEndpoints []string `yaml:"supported_endpoints"`
	// Prompts may contain these modalities. By default the edge does not check them.
	InputModalities []string `yaml:"input_modalities"`
	// The catalog publishes these as the modalities of answers.
	OutputModalities []string `yaml:"output_modalities"`
	// These context lengths of single modalities replace context_length.
	ModalityContextLengths map[string]int `yaml:"modality_context_lengths"`
	// These are the limits of calls with images. The catalog publishes them.
	Vision *Vision `yaml:"vision"`
	// These are the prices per million tokens, as text: input, cached_input and output. Spend
	// limits use only these three prices. The catalog publishes all members.
	Pricing map[string]any `yaml:"pricing"`
	// The catalog publishes these as the model's features.
	SupportedFeatures []string `yaml:"supported_features"`
	// Calls may request these reasoning efforts. Any other effort gets a 400. By default the edge
	// does not check efforts, and the catalog lists all of them if supported_features contains
	// reasoning.
	SupportedReasoningEfforts []string `yaml:"supported_reasoning_efforts"`
	// From this date on, clients should use another model. Answers contain the date in the
	// Deprecation header (RFC 9745).
	Deprecated time.Time `yaml:"deprecated"`
	// The model is meant to be served until this date. Answers contain the date in the Sunset
	// header (RFC 8594). The edge still serves calls after this date.
	Sunset time.Time `yaml:"sunset"`

	Discovered bool   `yaml:"-"` // the model comes from an engine's model list
	Parent     string `yaml:"-"` // for a discovered adapter, the engine's name for its base model
}

// Shadow configures which calls are copied to another model's engines.
type Shadow struct {
	// The engines of the model with this id get the copies. If it is omitted, no call is copied.
	Model string `yaml:"model"`
	// The edge copies this share of the chat conversations, each with all of its turns.
	Share Percent `yaml:"share"`
}

// ModelRetry configures additional retries for a model.
type ModelRetry struct {
	// Other engines may continue a stream this many times if its engine fails, stalls, or has been
	// drained for timeouts.drain. With 0, the stream ends with an error instead.
	Resume int `yaml:"resume"`
}

// Deployment is a model at an upstream, under the engine's name for it.
type Deployment struct {
	// This is the name of an upstream or a group. gpu-* is the group of all upstreams whose names
	// begin with gpu-, and tag:h100 is the group of all upstreams with that tag. A group omits
	// upstreams that the list names directly.
	Upstream string `yaml:"upstream"`
	// The engine knows the model by this name. The default is the model's id.
	Served string `yaml:"served"`
	// This is the deployment's tier. Tier 0 always serves. A higher tier serves only while no
	// upstream in the lower tiers takes calls.
	Tier int `yaml:"tier"`
	// This defines when a tier above 0 serves. full: when the lower tiers are full or unavailable.
	// down: only when they are unavailable. If the model has a queue, a call waits there before the
	// lower tiers count as full. All deployments of a tier must have the same value. The default is
	// full.
	When string `yaml:"when"`
	// This makes the deployment or group an arm. The arm gets this share of the model's
	// conversations, and no other calls. Deployments without a share get the remaining
	// conversations. With 0%, the arm gets no conversations yet.
	Traffic *Percent `yaml:"traffic"`
	// Only prompts of these lengths go to the deployment's engines.
	PromptTokens PromptTokenLimits `yaml:"prompt_tokens"`

	Arm string `yaml:"-"` // the arm's name if Traffic is set: the upstream or group as written in the file
}

// PromptTokenLimits limits the prompts that go to a deployment's engines.
type PromptTokenLimits struct {
	// Prompts may have at most this many tokens, as estimated by the edge. Longer prompts go to the
	// model's other deployments. At least one deployment of the model must have no max. 0 means no
	// limit.
	Max int `yaml:"max"`
}

// ModelDiscovery publishes models as long as an upstream's engines list them.
type ModelDiscovery struct {
	// The edge publishes models of the upstream with this name.
	Upstream string `yaml:"upstream"`
	// The edge publishes the models whose names equal this text. If the text ends in *, the edge
	// publishes those that begin with the text before it.
	Match string `yaml:"match"`
	// In the catalog, the names of the models start with this prefix.
	Prefix string `yaml:"prefix"`
	// The models are of this kind. The default is the kind that the engine reports, or chat.
	Kind string `yaml:"kind"`
	// Each of the models has this queue. Adapters share the queue of their base model.
	Queue Queue `yaml:"queue"`
}

// Queue configures how calls wait for a slot of a full pool. If the depth is 0, such calls
// immediately get a 429.
type Queue struct {
	// This many calls may wait for a slot. With 0, a call immediately gets a 429 if the pool is
	// full.
	Depth int `yaml:"depth"`
	// A call may wait this long before it gets a 429. With 0s, no call waits. This setting is
	// required if depth is set.
	Wait Duration `yaml:"wait"`
}

// Vision is the catalog's vision object, as defined in the contract.
type Vision struct {
	// The catalog publishes this as the recommended maximum edge of an image, in pixels.
	MaxImageEdge int `yaml:"max_image_edge"`
	// An image may have this many pixels. A larger image gets a 400.
	MaxPixels int `yaml:"max_pixels"`
	// The answer to a call with images may have this many tokens.
	MaxTokens int `yaml:"max_tokens"`
	// A call with images has this context length.
	ContextLength int `yaml:"context_length"`
	// A call that finds no slot for images gets this Retry-After, in seconds.
	RetryAfterSeconds int `yaml:"retry_after_seconds"`
}

// Values of Model.Kind.
const (
	ModelKindChat          = "chat"
	ModelKindTranscription = "audio-transcription"
	ModelKindSpeech        = "audio-speech"
	ModelKindImage         = "image"
	ModelKindImageEdit     = "image-edit"
	ModelKindEmbedding     = "embedding"
	ModelKindRerank        = "rerank"
)

// Operations to which a key can be limited.
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
