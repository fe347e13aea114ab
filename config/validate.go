package config

import (
	"crypto/x509"
	"strings"
)

// KnownProfiles contains the facts that Validate needs from other packages.
type KnownProfiles struct {
	// Engines are the names of the bundled engine profiles. If nil, Validate does not check engine
	// names.
	Engines []string
	// Continuing are the bundled profiles whose engines can continue a response that begins in the
	// request.
	Continuing []string
	// Ordering are the bundled profiles whose engines can order their queue by request priority.
	Ordering []string
	// Salting are the bundled profiles whose engines separate cached prompts by a salt. If nil,
	// Validate does not check salts.
	Salting []string
	// Fixed are the bundled profiles whose engines serve only the models that they were started
	// with.
	Fixed []string
}

// Validate checks all rules beyond the format of single values: unique names, references,
// addresses, ranges and contradictions. It returns all problems in order of position, including the
// warnings from reading the file. It does not change f, and reads only f and the clock.
func (f *File) Validate(k KnownProfiles) Problems {
	c := f.newChecks()
	profiles := engineChecks{c, k}
	byName := f.upstreamsByName()
	processChecks{c}.checkAll()
	keyChecks{c}.checkAll()
	keyChecks{c}.checkGroups()
	issuerChecks{c}.checkAll()
	hookChecks{keyChecks{c}}.checkAll()
	profiles.checkAll()
	upstreamChecks{c, byName, profiles}.checkAll()
	modelChecks{c, byName, modelsByID(f), profiles}.checkAll()
	if f.origin != nil {
		c.check.AddAll(f.origin.readWarnings)
	}
	return c.check.Problems()
}

// processChecks checks the settings of the process: listeners, limits, timeouts and access.
type processChecks struct{ checks }

func (c processChecks) checkAll() {
	c.checkServer()
	c.checkAccess()
	c.checkFleet()
	c.checkLedger()
	checkEndUsers(c)
	c.checkSealKeys()
	c.checkACME()
	c.checkClasses(c.file.Classes)
}

func (c processChecks) checkClasses(list []Class) {
	if len(list) == 0 {
		return
	}
	if len(list) < 2 || len(list) > MaxClasses {
		c.check.fail("classes", "give 2 to %d, the first to be served first", MaxClasses)
	}
	floors, seen := Percent(0), map[string]string{}
	for i := range list {
		at := entryPath("classes", i)
		c.check.checkName(at+".name", "the class needs a name", "class", list[i].Name, seen)
		if floors += list[i].Floor; floors > 100 {
			c.check.fail(at+".floor", "the floors add up to %s: at most 100%% is possible", floors)
		}
	}
}

func (c processChecks) checkServer() {
	f := c.file
	c.checkListeners()
	if (f.TLS.Cert == "") != (f.TLS.Key == "") {
		c.check.fail("tls", "cert and key go together: give both or none")
	}
	switch {
	case f.TLS.ClientCA == "":
	case !f.TLS.Enabled():
		c.check.fail("tls.client_ca", "clients show certificates only where the edge speaks TLS: give cert and key, too")
	case len(f.TLS.ClientCAs) > 0 && !x509.NewCertPool().AppendCertsFromPEM(f.TLS.ClientCAs):
		c.check.fail("tls.client_ca", "%s holds no certificate in PEM form: give those that sign the clients' certificates",
			f.TLS.ClientCA)
	}
	c.check.checkOneOf("log.level", "log.level", "a level", f.Log.Level)
	c.check.checkOneOf("log.format", "log.format", "a format", f.Log.Format)
	c.check.checkOneOf("on_revoke", "on_revoke", "a choice", f.OnRevoke)
	f.Tracing.validate(c.checks)
	c.checkLimits(f.Limits)
	c.checkTimeouts(f.Timeouts)
	c.check.checkRange("retry.attempts", f.Retry.Attempts, 1, 2)
	for i, o := range f.CORS.Origins {
		c.checkCORSOrigin(entryPath("cors.origins", i), o)
	}
	if f.Responses.WebSocket {
		c.check.warn("responses.websocket", "/v1/responses also answers over WebSocket, which the contract does not have")
	}
	for i, h := range f.Images.Hosts {
		if at := entryPath("images.hosts", i); !isHostName(strings.TrimPrefix(h, "*.")) {
			c.check.fail(at, "%s is not a host name: write it without scheme, port and path", c.positions.QuoteValue(at, h))
		}
	}
}

func (c processChecks) checkListeners() {
	f := c.file
	if err := checkListen(f.Listen); err != nil {
		c.check.fail("listen", "%s", err)
	}
	for i, network := range f.ListenTrusted {
		at := entryPath("listen_trusted", i)
		if network == ProxiesAtSocket {
			continue
		}
		switch prefix, err := parsePrefix(network); {
		case err != nil:
			c.check.fail(at, "%s is not a network: write an address or a prefix, such as 10.0.0.0/8, or unix for peers at a Unix socket", c.positions.QuoteValue(at, network))
		case prefix.Bits() == 0:
			c.check.fail(at, "every client could claim another address: list the networks of your proxies")
		}
	}
	if f.TrustRequestID && len(f.ListenTrusted) == 0 {
		c.check.warn("trust_request_id", "listen_trusted lists no peer, so no request's id is taken: list your proxies there, or remove one of the two")
	}
	if (f.Admin.TLS.Cert == "") != (f.Admin.TLS.Key == "") {
		c.check.fail("admin.tls", "cert and key go together: give both or none")
	}
	if f.Admin.Listen == "" {
		return
	}
	if err := checkListen(f.Admin.Listen); err != nil {
		c.check.fail("admin.listen", "%s", err)
		return
	}
	if listensConflict(f.Listen, f.Admin.Listen) {
		c.check.fail("admin.listen", "the public API already listens at %s: give the admin listener another address",
			c.positions.QuoteValue("listen", f.Listen))
	}
	c.checkAdminTokens(f.Admin.Tokens)
	c.checkRuntimeKeys()
	if !OnLoopback(f.Admin.Listen) && !f.Admin.RequiresToken() {
		c.check.fail("admin.listen",
			"the admin listener can be reached from other machines: set admin.token, or listen at 127.0.0.1")
	}
	if n := len(f.Admin.Token); n > 0 && n < MinAdminTokenLen {
		report := c.check.fail
		if OnLoopback(f.Admin.Listen) {
			report = c.check.warn
		}
		report("admin.token", "it can be guessed: give it at least %d characters, as \"openssl rand -hex 16\" prints them", MinAdminTokenLen)
	}
}

// checkAdminTokens checks the admin tokens. Messages never show a token.
func (c processChecks) checkAdminTokens(tokens []AdminToken) {
	names, values := map[string]string{}, map[Secret]string{c.file.Admin.Token: "admin.token"}
	for i := range tokens {
		t, at := &tokens[i], entryPath("admin.tokens", i)
		c.check.checkName(at+".name", "a token needs a name, which appears in the log", "token", t.Name, names)
		c.check.checkOneOf(at+".role", "admin.tokens.role", "a role", t.Role)
		digits, sha256 := strings.CutPrefix(t.Hash.Value(), HashPrefix)
		first, twice := values[t.Token]
		switch {
		case (t.Token == "") == (t.Hash == ""):
			c.check.fail(at, "set either token or hash")
		case t.Token == "" && (!sha256 || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != ""):
			c.check.fail(at+".hash", "this is not a hash: write what \"penstock key hash\" prints for the token")
		case t.Token == "":
		case len(t.Token) < MinAdminTokenLen:
			c.check.fail(at+".token", "it can be guessed: give it at least %d characters, as \"openssl rand -hex 16\" prints them", MinAdminTokenLen)
		case twice:
			c.check.fail(at+".token", "two names have the same token: first %s", c.positions.DescribeLine(first, at+".token"))
		default:
			values[t.Token] = at + ".token"
		}
	}
}

// checkRuntimeKeys checks where keys made at run time are stored.
func (c processChecks) checkRuntimeKeys() {
	const path = "admin.keys.file"
	f := c.file
	switch {
	case f.Admin.Keys.File == "":
	case f.Fleet.Keys.Enabled():
		c.check.fail(path, "keys made at run time are kept in one place, and fleet.keys keeps them in the store: remove one of the two")
	case f.Admin.Keys.File == f.KeysFile:
		c.check.fail(path, "an edge writes this file, and you write keys_file: name another one")
	case !f.Admin.RequiresToken():
		c.check.warn(path, "making keys needs an admin token: set admin.token, or admin.tokens with the role keys")
	}
}

// MinAdminTokenLen is the minimum length of an admin token. A token of this length cannot be
// guessed over the network.
const MinAdminTokenLen = 16

// minSealKeyLen is the length of 24 random bytes in base64.
const minSealKeyLen = 32

func (c processChecks) checkSealKeys() {
	for i, key := range c.file.Seal.Keys {
		if len(key) < minSealKeyLen {
			c.check.fail(entryPath("seal.keys", i),
				"the key is shorter than %d characters: make one with head -c 32 /dev/urandom | base64", minSealKeyLen)
		}
	}
	if c.file.Fleet.EdgeCount() > 1 && len(c.file.Seal.Keys) == 0 {
		c.check.warn("fleet", "without seal.keys each edge seals reasoning with its own key, so the others cannot open it, "+
			"and compacts no conversations: give all edges the same seal.keys")
	}
}

func (t *Tracing) validate(c checks) {
	if t.OTLP == "" {
		return
	}
	if _, err := parseHTTPURL(t.OTLP); err != nil {
		c.check.fail("tracing.otlp", "%s", err)
	}
}

func (c processChecks) checkLimits(l Limits) {
	for _, r := range []struct {
		path        string
		n           Bytes
		least, most Bytes
	}{
		{"limits.request_body", l.RequestBody, 1 << 10, 1 << 30},
		{"limits.upload_body", l.UploadBody, 1 << 10, 1 << 40},
		{"limits.upload_rate", l.UploadRate, 1, 1 << 40},
		{"limits.header", l.Header, 1 << 10, 1 << 20},
	} {
		if r.n < r.least || r.n > r.most {
			c.check.fail(r.path, "%s is out of range: %s to %s", r.n, r.least, r.most)
		}
	}
	if l.BodyMemory <= 0 {
		c.check.fail("limits.body_memory", "must be above 0%%, or no body is accepted")
	}
	if l.ReplyMemory <= 0 {
		c.check.fail("limits.reply_memory", "must be above 0%%, or no answer above 64 KiB is given")
	}
	c.check.checkRange("limits.connections", l.Connections, 1, 10_000_000)
	c.check.checkRange("limits.connections_per_address", l.ConnectionsPerAddress, 0, 10_000_000)
	if !c.positions.HasValue("limits.connections_per_address") && mayBeReachable(c.file.Listen) {
		c.check.warn("listen", "other machines can reach it, and one address may hold all limits.connections: "+
			"write limits.connections_per_address: 200, or 0 behind a balancer, which is a single address")
	}
}

func (c processChecks) checkTimeouts(t Timeouts) {
	for _, r := range []struct {
		path string
		d    Duration
	}{
		{"connect", t.Connect},
		{"answer", t.Answer},
		{"client_header", t.ClientHeader},
		{"client_body", t.ClientBody},
		{"client_idle", t.ClientIdle},
		{"write", t.Write},
	} {
		c.check.requirePositive("timeouts."+r.path, r.d)
	}
}

func (c processChecks) checkCORSOrigin(path, o string) {
	if o == "*" {
		return
	}
	u, err := parseHTTPURL(o)
	switch {
	case err != nil:
		c.check.fail(path, "%s", err)
	case u.Path != "":
		c.check.fail(path, "an origin ends after the host and port: %s://%s", u.Scheme, u.Host)
	case strings.ToLower(u.Host) != u.Host:
		c.check.fail(path, "browsers send origins in lower case")
	}
}

func (c processChecks) checkAccess() {
	f := c.file
	if f.Auth != "" && f.Auth != AuthNone {
		c.check.fail("auth", "%s is not a choice: write none, or leave auth out to require keys", c.positions.QuoteValue("auth", f.Auth))
		return
	}
	if f.Auth == "" {
		// A keys_file without keys is only a warning, because its last key may have been revoked.
		if len(f.Keys) == 0 && f.origin != nil && f.origin.keyless {
			c.check.warn("keys_file", "there are no keys, so every call is refused")
		} else if len(f.Keys) == 0 && !f.CanCreateKeys() && !c.positions.IsBroken("keys") &&
			!c.positions.IsBroken("keys_file") && !c.positions.IsBroken("auth") {
			c.check.fail("keys",
				`there are no keys, so nobody could call: add one with "penstock key new", or set auth: none on loopback`)
		}
		keyChecks(c).warnExpiringKeys(keyChecks(c).warnNoValidKey())
		if !f.Catalog.Public {
			c.check.warn("catalog.public", "GET /v1/models requires a key, which clients that only list models may not send")
		}
		return
	}
	if !f.Catalog.Public {
		c.check.fail("catalog.public", "auth: none has no keys to require")
	}
	if !OnLoopback(f.Listen) {
		c.check.fail("auth", "none is allowed on loopback only, and listen is %s", c.positions.QuoteValue("listen", f.Listen))
	}
	if f.Admin.Listen != "" && !OnLoopback(f.Admin.Listen) {
		c.check.fail("auth", "none is allowed on loopback only, and admin.listen is %s",
			c.positions.QuoteValue("admin.listen", f.Admin.Listen))
	}
	if len(f.Keys) > 0 {
		c.check.warn("auth", "auth: none disables the keys of this file: remove one of the two")
	}
}
