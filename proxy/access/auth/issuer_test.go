package auth

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"penstock/config"
	"penstock/config/testkit/raced"
	"penstock/proxy/access/auth/jwt"
)

type provider struct {
	private ed25519.PrivateKey
	set     *jwt.Set
	renewed int      // number of requests for newer keys
	suspect int      // number of these requests with suspect set
	newer   *jwt.Set // the set that a fetch returns
	pending bool     // whether the fetch has not returned yet
}

func (p *provider) Keys() *jwt.Set { return p.set }
func (p *provider) Renew(_ *jwt.Token, suspect bool) (final bool) {
	p.renewed++
	if suspect {
		p.suspect++
	}
	if p.newer != nil {
		p.set = p.newer
	}
	return !p.pending
}

func newProvider(t testing.TB) *provider {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{private: private}
	p.set = setOf(t, public)
	return p
}

func setOf(t testing.TB, public ...ed25519.PublicKey) *jwt.Set {
	t.Helper()
	var keys jose.JSONWebKeySet
	for i, k := range public {
		keys.Keys = append(keys.Keys, jose.JSONWebKey{Key: k, KeyID: fmt.Sprint(i)})
	}
	text, err := json.Marshal(keys)
	if err != nil {
		t.Fatal(err)
	}
	set, err := jwt.ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// token returns a signed token whose claims are valid for one hour from now. more contains
// additional claims.
func (p *provider) token(more string) Credential { return p.tokenUntil(now.Add(time.Hour), more) }

func (p *provider) tokenUntil(end time.Time, more string) Credential {
	encode := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"iss":"https://idp.test","aud":"penstock","exp":%d,%s}`, end.Unix(), more)
	input := encode([]byte(`{"alg":"EdDSA","kid":"0"}`)) + "." + encode([]byte(claims))
	return Credential{key: []byte(input + "." + encode(ed25519.Sign(p.private, []byte(input))))}
}

func (p *provider) ring(t testing.TB, change func(*config.Issuer, []config.Key)) *KeyRing {
	t.Helper()
	is := config.Issuer{
		Issuer: "https://idp.test", Name: "corp", Audience: config.Audiences{"penstock"}, JWKS: "https://idp.test/jwks",
		Claims: config.IssuerClaims{Key: "sub", Templates: []config.IssuerTemplate{
			{Claim: "groups", Value: "ml-*", Key: "ml"}, {Claim: "groups", Value: "staff", Key: "plain"},
		}},
	}
	keys := []config.Key{
		{ID: "ml", Models: []string{"llama*"}, CacheGroup: "team"}, {ID: "plain", Hash: hashes("secret"), Models: []string{"small"}},
	}
	if change != nil {
		change(&is, keys)
	}
	r, err := NewKeyRing(keys, &IssuerOptions{Config: []config.Issuer{is}, Source: func(string) KeySet { return p }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTokens(t *testing.T) {
	p, stranger := newProvider(t), newProvider(t)
	r := p.ring(t, nil)
	for name, c := range map[string]struct {
		token Credential
		id    string
		err   error
	}{
		"a group by a pattern":   {p.token(`"sub":"alice","groups":["x","ml-infra"]`), "corp/alice", nil},
		"a group by its name":    {p.token(`"sub":"bob","groups":"staff"`), "corp/bob", nil},
		"a group as a member":    {p.token(`"sub":"bob","groups":{"staff":{"1":"house.test"}}`), "corp/bob", nil},
		"a group that is false":  {p.token(`"sub":"bob","groups":{"staff":false}`), "", errTokenWithoutAccess},
		"no group that fits":     {p.token(`"sub":"eve","groups":["ml"]`), "", errTokenWithoutAccess},
		"no groups":              {p.token(`"sub":"eve"`), "", errTokenWithoutAccess},
		"no subject":             {p.token(`"groups":"staff"`), "", errInvalidKey},
		"a subject of blanks":    {p.token(`"sub":" ","groups":"staff"`), "corp/" + safeID(" "), nil},
		"a subject with quotes":  {p.token(`"sub":"a\"} 1\n","groups":"staff"`), "corp/" + safeID("a\"} 1\n"), nil},
		"expired":                {p.tokenUntil(now.Add(-time.Minute), `"sub":"alice","groups":"staff"`), "", errTokenExpired},
		"expired within leeway":  {p.tokenUntil(now.Add(-59*time.Second), `"sub":"alice","groups":"staff"`), "corp/alice", nil},
		"from later on":          {p.token(fmt.Sprintf(`"sub":"a","groups":"staff","nbf":%d`, now.Add(2*time.Minute).Unix())), "", errTokenNotYetValid},
		"a stranger's signature": {stranger.token(`"sub":"alice","groups":"staff"`), "", errInvalidKey},
		"a key with dots":        {Credential{key: []byte("one.two.three")}, "", errInvalidKey},
		"a key":                  {Credential{key: []byte("secret")}, "plain", nil},
	} {
		for range 2 { // the second result is cached
			k, err := r.FindKey(c.token, now)
			if err != c.err && (c.err != nil || err != nil) {
				t.Errorf("%s: %v, want %v", name, err, c.err)
			} else if err == nil && k.ID != c.id {
				t.Errorf("%s: key %q, want %q", name, k.ID, c.id)
			}
		}
	}
	ml, _ := r.FindKey(p.token(`"sub":"alice","groups":["ml-infra"]`), now)
	plain, _ := r.FindKey(p.token(`"sub":"alice","groups":["staff"]`), now)
	if !ml.AllowsModel("llama-3") || ml.AllowsModel("small") || !plain.AllowsModel("small") || plain.AllowsModel("llama-3") {
		t.Error("rights are not those of the templates")
	}
	if ml.CacheOwner != "group team" || plain.CacheOwner != "key corp/alice" || ml.Template.ID != "ml" {
		t.Errorf("cache owners %q, %q", ml.CacheOwner, plain.CacheOwner)
	}
	if p.renewed != 2 || p.suspect != 2 {
		t.Errorf("a newer set was asked for %d times, %d of them for a bad signature", p.renewed, p.suspect)
	}
}

// TestTokenEnds checks when a cached token is rejected: after it has expired, after the clock was
// set back, and after its key, template or issuer was removed. MayContinue must give the same
// results, except that it ignores the token's expiry.
func TestTokenEnds(t *testing.T) {
	p := newProvider(t)
	r := p.ring(t, nil)
	c := p.token(fmt.Sprintf(`"sub":"alice","groups":"staff","iat":%d`, now.Unix()))
	k, err := r.FindKey(c, now)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[time.Time]error{
		now.Add(time.Hour + 59*time.Second): nil, now.Add(time.Hour + 60*time.Second): errTokenExpired,
		now.Add(-60 * time.Second): nil, now.Add(-61 * time.Second): errTokenNotYetValid,
	} {
		if _, err := r.FindKey(c, at); err != want && (want != nil || err != nil) {
			t.Errorf("at %v: %v, want %v", at, err, want)
		}
	}
	if !r.MayContinue(k, now.Add(2*time.Hour)) {
		t.Error("a call is ended because its token has expired meanwhile")
	}
	off := false
	for name, change := range map[string]func(*config.Issuer, []config.Key){
		"issuer":   func(is *config.Issuer, _ []config.Key) { is.Issuer = "https://other.test" },
		"name":     func(is *config.Issuer, _ []config.Key) { is.Name = "other" },
		"template": func(is *config.Issuer, _ []config.Key) { is.Claims.Templates = is.Claims.Templates[:1] },
		"audience": func(is *config.Issuer, _ []config.Key) { is.Audience = []string{"another"} },
		"template's value": func(is *config.Issuer, _ []config.Key) {
			is.Claims.Templates = slices.Clone(is.Claims.Templates)
			is.Claims.Templates[1].Value = "another"
		},
		"template off":   func(_ *config.Issuer, keys []config.Key) { keys[1].Active = &off },
		"template ended": func(_ *config.Issuer, keys []config.Key) { keys[1].Expires = now },
	} {
		if next := p.ring(t, change); next.MayContinue(k, now) {
			t.Errorf("%s: the token still holds", name)
		} else if _, err := next.FindKey(c, now); err == nil && name != "name" {
			t.Errorf("%s: the token is still taken", name)
		}
	}
	if mustRing(t).MayContinue(k, now) {
		t.Error("a token holds without issuers")
	}
	other := newProvider(t)
	p.set = other.set
	if r.MayContinue(k, now) {
		t.Error("a token of a withdrawn key holds")
	}
	if _, err := r.FindKey(c, now); err == nil {
		t.Error("a token of a withdrawn key is taken")
	}
	p.set, p.newer = nil, nil
	if _, err := r.FindKey(c, now); err != error(errNoKeys) {
		t.Errorf("without any keys: %v", err)
	}
}

// TestTokenOfAnUnknownKey checks that a token with plausible claims waits for newer keys. The
// request must get a 401 if the newer keys cannot verify the token, and a 503 if they do not arrive
// in time.
func TestTokenOfAnUnknownKey(t *testing.T) {
	const role = `"sub":"alice","groups":"staff"`
	far := fmt.Sprint(now.Add(2 * time.Minute).Unix())
	for name, c := range map[string]struct {
		token func(p *provider) Credential
		// Whether the current set contains a key that has the token's kid but was replaced by the
		// issuer.
		known bool
		comes bool // whether a newer set contains the token's key
		// pending: the newer set has not arrived yet; none: no set has ever arrived.
		pending, none bool
		err           error
		asked         int
	}{
		"a new kid":                     {comes: true, asked: 1},
		"a new key under its kid":       {known: true, comes: true, asked: 1},
		"a kid that there is not":       {err: errInvalidKey, asked: 1},
		"a bad signature":               {known: true, err: errInvalidKey, asked: 1},
		"while the fetch runs":          {pending: true, err: errNoKeys, asked: 1},
		"while the fetch runs, suspect": {known: true, pending: true, err: errNoKeys, asked: 1},
		"the first fetch":               {none: true, comes: true, asked: 1},
		"no fetch has brought keys":     {none: true, err: errNoKeys, asked: 1},
		"for another audience, no keys": {none: true, err: errInvalidKey, token: func(p *provider) Credential { return p.token(role + `,"aud":"other"`) }},
		"expired":                       {comes: true, err: errInvalidKey, token: func(p *provider) Credential { return p.tokenUntil(now.Add(-time.Hour), role) }},
		"not valid yet":                 {comes: true, err: errInvalidKey, token: func(p *provider) Credential { return p.token(role + `,"nbf":` + far) }},
	} {
		p, before := newProvider(t), newProvider(t)
		if c.comes {
			p.newer = p.set
		}
		switch {
		case c.none:
			p.set = nil
		case c.known:
			p.set = before.set
		default:
			p.set, _ = jwt.ParseSet([]byte(`{"keys":[]}`))
		}
		p.pending = c.pending
		if c.token == nil {
			c.token = func(p *provider) Credential { return p.token(role) }
		}
		k, err := p.ring(t, nil).FindKey(c.token(p), now)
		if err != c.err && (c.err != nil || err != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
		} else if err == nil && k.ID != "corp/alice" {
			t.Errorf("FindKey(%s) = key %q, want corp/alice", name, k.ID)
		}
		if p.renewed != c.asked || c.known != (p.suspect > 0) {
			t.Errorf("%s: asked %d times, %d for a bad signature", name, p.renewed, p.suspect)
		}
	}
}

// TestTokenOfAConfiguredID checks that a token whose claim equals a configured key's id cannot use
// up the limits of that key.
func TestTokenOfAConfiguredID(t *testing.T) {
	p := newProvider(t)
	r := p.ring(t, nil)
	r.ids["corp/alice"] = struct{}{}
	if _, err := r.FindKey(p.token(`"sub":"alice","groups":"staff"`), now); err == nil {
		t.Error("it is taken")
	}
}

func TestSafeID(t *testing.T) {
	seen := map[string]string{}
	for _, claim := range []string{
		"a", "alice@example.com", "auth0|5f", "system:serviceaccount:ml:bot", strings.Repeat("x", 128), strings.Repeat("x", 129), "ü", "a b",
		"\"", "~", safeID("ü"), "\x00", "a\nb", "<script>x</script>", "../x", "a..b", "a*", "a?b", "a%2f", "a&b", "{a}", "a;b", "K", "ſ",
		"https://provider.test/users/1", "dGVzdA==", "a+b", "3f2a-77",
	} {
		id := safeID(claim)
		if other, twice := seen[id]; twice || len(id) > maxIDBytes || strings.ContainsAny(id, " \"\\\n<>*?%&{};") || strings.Contains(id, "..") {
			t.Errorf("%q has the id %q, as %q", claim, id, other)
		}
		if plain := strings.HasPrefix(claim, "https:") || strings.ContainsAny(claim, "=+-|@"); plain && id != claim {
			t.Errorf("%q has the id %q", claim, id)
		}
		seen[id] = claim
	}
}

// TestTokenDoesNotAllocate checks that looking up a key or a cached token does not allocate.
func TestTokenDoesNotAllocate(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	p := newProvider(t)
	r := p.ring(t, nil)
	for name, c := range map[string]Credential{
		"token": p.token(`"sub":"alice","groups":"staff"`), "key": {key: []byte("secret")}, "unknown key": {key: []byte("unknown")},
	} {
		_, _ = r.FindKey(c, now)
		if n := testing.AllocsPerRun(100, func() { _, _ = r.FindKey(c, now) }); n != 0 {
			t.Errorf("FindKey(%s) allocates %v times, want 0", name, n)
		}
	}
}
