package e2e

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/proxy/e2e/rig"
)

// identityProvider is an identity provider on loopback. It signs with the newest key and publishes all keys that
// have not been withdrawn.
type identityProvider struct {
	*httptest.Server
	mu           sync.Mutex
	keys         map[string]ed25519.PrivateKey // the published keys
	newest       string
	requestCount int
	offline      bool
}

func newIDP(t *testing.T) *identityProvider {
	p := &identityProvider{keys: map[string]ed25519.PrivateKey{}}
	p.add(t, "1")
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.requestCount++; p.offline || r.URL.Path != "/jwks" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(p.publishedJWKS())
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) add(t *testing.T, id string) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys[id], p.newest = private, id
}

func (p *identityProvider) publishedJWKS() []byte {
	var out struct {
		Keys []map[string]string `json:"keys"`
	}
	for id, k := range p.keys {
		x := base64.RawURLEncoding.EncodeToString(k.Public().(ed25519.PublicKey))
		out.Keys = append(out.Keys, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x})
	}
	text, _ := json.Marshal(out)
	return text
}

// sign returns an Authorization header with a token that is valid for an hour. more contains
// additional claims.
func (p *identityProvider) sign(sub, more string) string {
	return p.signUntil(time.Now().Add(time.Hour), sub, more)
}

func (p *identityProvider) signUntil(end time.Time, sub, more string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	encode := base64.RawURLEncoding.EncodeToString
	input := encode(fmt.Appendf(nil, `{"alg":"EdDSA","kid":%q}`, p.newest)) + "." +
		encode(fmt.Appendf(nil, `{"iss":"https://idp.test","aud":"penstock","exp":%d,"sub":%q%s}`, end.Unix(), sub, more))
	return "Authorization: Bearer " + input + "." + encode(ed25519.Sign(p.keys[p.newest], []byte(input)))
}

const staffClaim = `,"groups":["staff"]`

// issuers returns the configuration section for the provider.
func (p *identityProvider) issuers(jwks string) string {
	return fmt.Sprintf(`issuers: [{ issuer: "https://idp.test", name: corp, audience: penstock, jwks: %q, claims: { templates: [{ claim: groups, value: staff, key: person }] } }]`, jwks)
}

const person = "- { id: person, models: [sim], limits: { requests_per_minute: 10 } }\n"

// waitKeys waits until the edge has fetched the given number of the provider's keys.
func (p *identityProvider) waitKeys(t *testing.T, e interface{ Status() *rig.State }, keys int) {
	t.Helper()
	rig.WaitFor(t, rig.WaitTimeout, "the issuer's keys are there", func() bool {
		all := e.Status().Issuers
		return len(all) == 1 && all[0].Keys == keys
	})
}

// issuerMetrics is the prefix of the metrics that exist only if the edge has issuers.
const issuerMetrics = "penstock_issuer_"

// TestTokensOfAnIssuer checks that a token signed by an issuer works like a key, in every header
// and dialect. Other tokens must be refused in the dialect's format, without quoting the token.
// Limits, usage and log lines must belong to the caller.
func TestTokensOfAnIssuer(t *testing.T) {
	t.Parallel()
	idp := newIDP(t)
	p := start(t, rig.Setup{Top: idp.issuers(idp.URL + "/jwks"), Keys: person})
	idp.waitKeys(t, p, 1)
	alice := idp.sign("alice", staffClaim)
	p.Post(chatPath, p.ChatRequest(""), alice).WantStatus(200)
	p.Post("/v1/messages", p.ChatRequest(`"max_tokens":5`), alice, strings.Replace(alice, "Authorization: Bearer ", "x-api-key: ", 1)).WantStatus(200)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200) // keys must still work
	for name, c := range map[string]struct {
		credential, says string
		status           int
	}{
		"expired":         {idp.signUntil(time.Now().Add(-time.Hour), "sentinel-sub", staffClaim), "expired", 401},
		"not of the role": {idp.sign("sentinel-sub", ""), "no access", 403},
		"cut":             {alice[:len(alice)-8], "invalid API key", 401},
		"another's":       {newIDP(t).sign("sentinel-sub", staffClaim), "invalid API key", 401},
		"unsigned":        {alice[:strings.LastIndexByte(alice, '.')+1], "invalid API key", 401},
	} {
		for _, path := range []string{chatPath, "/v1/messages"} {
			a := p.Post(path, p.ChatRequest(""), c.credential)
			if a.WantStatus(c.status); !strings.Contains(a.Body, c.says) || strings.Contains(a.Body, "sentinel") {
				t.Errorf("%s at %s is answered %s", name, path, a.Body)
			}
			if path == "/v1/messages" && !strings.HasPrefix(a.Body, `{"type":"error"`) {
				t.Errorf("%s: %s is not of the dialect", name, a.Body)
			}
		}
	}
	// The template's limits apply to each caller separately. The loop exhausts the limit of one
	// caller.
	for i := 0; p.Post(chatPath, p.ChatRequest(""), alice).Status == 200 && i < 1000; i++ {
	}
	p.Post(chatPath, p.ChatRequest(""), alice).WantStatus(429)
	p.Post(chatPath, p.ChatRequest(""), idp.sign("alice", staffClaim+`,"jti":"2"`)).WantStatus(429)
	p.Post(chatPath, p.ChatRequest(""), idp.sign("bob", staffClaim)).WantStatus(200)
	page := p.MetricsText()
	wantShown(t, page, func(name string) bool { return strings.HasPrefix(name, issuerMetrics) })
	for _, problem := range lint(page) {
		t.Error(problem)
	}
	if n := p.Metric("penstock_issuer_keys", `issuer="corp"`); n != 1 {
		t.Errorf("penstock_issuer_keys is %v", n)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the log has the caller", func() bool {
		return slices.ContainsFunc(p.AccessLines(), func(l rig.AccessLine) bool { return l.Key == "corp/bob" && l.Status == 200 })
	})
	if log := p.Log.String(); !strings.Contains(log, `"key":"corp/alice"`) || strings.Contains(log, "sentinel") ||
		strings.Contains(log, alice[len(alice)-20:]) {
		t.Error("the log has not the caller's id, or more than that")
	}
}

// TestTokensShareLimits checks that, with per: key, all callers of one template share the
// template's limits, both at one edge and at two edges with a store. Callers of another template,
// and the edge's keys, must have separate limits.
func TestTokensShareLimits(t *testing.T) {
	t.Parallel()
	idp := newIDP(t)
	issuers := strings.Replace(idp.issuers(idp.URL+"/jwks"), "templates: [", "templates: [{ claim: groups, value: other, key: other }, ", 1)
	const keys = "- { id: person, models: [sim], limits: { requests_per_minute: 5, concurrency: 2, per: key } }\n" +
		"- { id: other, models: [sim], limits: { requests_per_minute: 1, per: key } }\n"
	store := "fleet: { edges: 2, store: { url: \"redis://" + miniredis.RunT(t).Addr() + "\", timeout: 1s }, secrets: [0123456789abcdef0123456789abcdef] }\n"
	for name, top := range map[string]string{"alone": issuers, "fleet": store + issuers} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rig.Setup{Top: top, Keys: keys}
			a := start(t, s)
			b := a
			if name == "fleet" {
				s.Fakes = []string{a.Engines[0].URL()}
				b = start(t, s)
				rig.WaitFor(t, rig.WaitTimeout, "both edges show themselves", func() bool {
					return a.Metric("penstock_fleet_members") == 2 && b.Metric("penstock_fleet_members") == 2
				})
			}
			idp.waitKeys(t, a, 1)
			idp.waitKeys(t, b, 1)
			alice, bob := idp.sign("alice", staffClaim), idp.sign("bob", staffClaim)
			one, two := a.OpenStream(chatPath, a.ChatRequest(endlessStream), alice), b.OpenStream(chatPath, b.ChatRequest(endlessStream), bob)
			one.Next()
			two.Next()
			if r := b.Post(chatPath, b.ChatRequest(""), idp.sign("carol", staffClaim)).WantStatus(429); !strings.Contains(r.Body, "2 concurrent requests") {
				t.Errorf("a third caller of the template: %s", r.Body)
			}
			one.Disconnect()
			two.Disconnect()
			a.WaitIdle()
			b.WaitIdle()
			a.Post(chatPath, a.ChatRequest(""), alice).WantStatus(200) // the fourth of five requests
			b.Post(chatPath, b.ChatRequest(""), bob).WantStatus(200)
			for _, edge := range []*penstock{a, b} {
				if r := edge.Post(chatPath, edge.ChatRequest(""), bob).WantStatus(429); !strings.Contains(r.Body, "5 requests per minute") {
					t.Errorf("answer = %s, want 5 requests per minute", r.Body)
				}
				edge.Post(chatPath, edge.ChatRequest("")).WantStatus(200) // a call with another key
			}
			a.Post(chatPath, a.ChatRequest(""), idp.sign("alice", `,"groups":["other"]`)).WantStatus(200)
			a.Post(chatPath, a.ChatRequest(""), idp.sign("dan", `,"groups":["other"]`)).WantStatus(429)
		})
	}
}

// TestKeyMetrics checks that metrics show a key's calls, tokens, refusals and running calls. Calls
// with a token must count for the key that is the token's template. Calls without a key must have
// the id "-".
func TestKeyMetrics(t *testing.T) {
	t.Parallel()
	idp := newIDP(t)
	p := start(t, rig.Setup{Top: idp.issuers(idp.URL + "/jwks"), Keys: person})
	idp.waitKeys(t, p, 1)
	alice := idp.sign("alice", staffClaim)
	p.Post(chatPath, p.ChatRequest(""), alice).WantStatus(200)
	p.Post(chatPath, strings.Replace(p.ChatRequest(""), `"sim"`, `"unknown"`, 1), alice).WantStatus(404)
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer sk-nobody").WantStatus(401)
	release := p.hold(1, p.ChatRequest(endlessStream))
	if n := p.Metric("penstock_key_calls_inflight", `key="tester"`); n != 1 {
		t.Errorf("%v calls of the key run, want 1", n)
	}
	release()
	p.WaitIdle()
	for _, c := range []struct {
		name, key, more string
		want            float64
	}{
		{"penstock_key_calls_total", "person", "", 2},
		{"penstock_key_calls_total", "tester", "", 1},
		{"penstock_key_calls_total", "-", "", 1},
		{"penstock_key_refusals_total", "person", `reason="model_not_found"`, 1},
		{"penstock_key_refusals_total", "-", `reason="invalid_api_key"`, 1},
		{"penstock_key_refusals_total", "person", "", 1},
		{"penstock_key_calls_inflight", "tester", "", 0},
		{"penstock_key_tokens_total", "person", `kind="completion"`, p.Metric("penstock_tokens_total", `kind="completion"`) - p.Metric("penstock_key_tokens_total", `key="tester"`, `kind="completion"`)},
	} {
		if got := p.Metric(c.name, `key="`+c.key+`"`, c.more); got != c.want {
			t.Errorf("%s of %s %s is %v, want %v", c.name, c.key, c.more, got, c.want)
		}
	}
	if p.Metric("penstock_key_tokens_total", `key="person"`, `kind="prompt"`) == 0 {
		t.Error("no tokens")
	}
	for _, line := range p.Series() {
		if strings.Contains(line, "alice") {
			t.Errorf("a caller's name: %s", line)
		}
	}
}

// TestIssuerRotatesItsKeys checks that the first token signed with a new key makes the edge fetch
// this key. Tokens signed with a withdrawn key must be refused and, if on_revoke is abort, their
// streams must end. An issuer that does not respond must have no effect.
func TestIssuerRotatesItsKeys(t *testing.T) {
	t.Parallel()
	idp := newIDP(t)
	top := "on_revoke: abort\n" + idp.issuers(idp.URL+"/jwks")
	p := start(t, rig.Setup{Top: top, Keys: person, Forgets: true})
	idp.waitKeys(t, p, 1)
	old := idp.sign("alice", staffClaim)
	s := p.OpenStream(chatPath, p.ChatRequest(endlessStream), old)
	s.Next()
	idp.add(t, "2")
	next := idp.sign("alice", staffClaim)
	// The first token signed with the new key waits for the fetch.
	p.Post(chatPath, p.ChatRequest(""), next).WantStatus(200)
	p.Post(chatPath, p.ChatRequest(""), old).WantStatus(200)
	idp.mu.Lock()
	delete(idp.keys, "1")
	idp.mu.Unlock()
	idp.add(t, "3") // a token signed with this key makes the edge fetch the key set
	newest := idp.sign("alice", staffClaim)
	rig.WaitFor(t, rig.WaitTimeout, "the newest key is known", func() bool {
		a := p.Post(chatPath, p.ChatRequest(""), newest)
		if a.Status != 200 && a.Status != 429 {
			a.WantStatus(503)
		}
		return a.Status == 200
	})
	p.Post(chatPath, p.ChatRequest(""), old).WantStatus(401)
	for ok := true; ok; {
		_, ok = s.Next()
	}
	idp.mu.Lock()
	idp.offline = true
	idp.mu.Unlock()
	idp.add(t, "4")
	unknown := idp.sign("alice", staffClaim)
	rig.WaitFor(t, rig.WaitTimeout, "the edge has noticed that the issuer is dead", func() bool {
		if a := p.Post(chatPath, p.ChatRequest(""), unknown); a.Status != 503 || a.Header.Get("Retry-After") == "" {
			a.WantStatus(401) // until the fetch returns, the response is a 503 with a Retry-After
		}
		all := p.Status().Issuers
		return len(all) == 1 && all[0].Trouble != ""
	})
	p.Post(chatPath, p.ChatRequest(""), newest).WantStatus(200)

	// A reload that removes an issuer revokes all its tokens.
	s = p.OpenStream(chatPath, p.ChatRequest(endlessStream), newest)
	s.Next()
	p.Reload(rig.Setup{Top: "on_revoke: abort"})
	p.Post(chatPath, p.ChatRequest(""), newest).WantStatus(401)
	for ok := true; ok; {
		_, ok = s.Next()
	}
}

// TestIssuerNotReachable checks tokens until the issuer's keys have been fetched for the first
// time. A token may be valid, so it must receive a 503 with a Retry-After. During this time, the
// edge's keys must work.
func TestIssuerNotReachable(t *testing.T) {
	t.Parallel()
	idp := newIDP(t)
	idp.offline = true
	p := start(t, rig.Setup{Top: idp.issuers(idp.URL + "/jwks"), Keys: person})
	token := idp.sign("alice", staffClaim)
	a := p.Post(chatPath, p.ChatRequest(""), token)
	a.WantStatus(503)
	if a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	p.Post("/v1/messages", p.ChatRequest(""), token).WantStatus(529)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	idp.mu.Lock()
	idp.offline = false
	idp.mu.Unlock()
	rig.WaitFor(t, rig.WaitTimeout, "the token is taken", func() bool { return p.Post(chatPath, p.ChatRequest(""), token).Status == 200 })
}
