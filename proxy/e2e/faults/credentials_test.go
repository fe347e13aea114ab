package faults

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 52 to 55: invalid credentials.

// unauthorized sends the given header lines instead of the key, and expects a 401 with the given
// code.
func (e *edge) unauthorized(t *testing.T, target, code string, lines ...string) {
	t.Helper()
	body := e.ChatRequest("")
	c := e.Dial()
	_ = c.Send("POST " + target + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
	r := c.ReadReply("POST")
	r.T = t
	r.WantRefused(rig.Chat, rig.Refusal{Status: 401, Kind: "authentication_error", Code: code, After: ""})
	if got := r.Header.Get("Www-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate %q", got)
	}
}

func TestFault52_BadCredentials(t *testing.T) {
	t.Parallel()
	expired, expiredHash, _ := auth.NewKey()
	inactive, inactiveHash, _ := auth.NewKey()
	e := start(t, rig.Setup{Keys: `
- { id: expired, hash: "` + expiredHash + `", expires: 2020-01-01T00:00:00Z }
- { id: inactive, hash: "` + inactiveHash + `", active: false }
`})
	stranger, _, _ := auth.NewKey()
	near := e.Key[:len(e.Key)-1] + string(e.Key[len(e.Key)-1]^1)
	texts := map[string]bool{}
	for name, lines := range map[string][]string{
		"none":                {},
		"empty":               {"Authorization: "},
		"scheme alone":        {"Authorization: Bearer"},
		"scheme and blank":    {"Authorization: Bearer "},
		"wrong":               {"Authorization: Bearer wrong"},
		"stranger":            {"Authorization: Bearer " + stranger},
		"near":                {"Authorization: Bearer " + near},
		"longer":              {"Authorization: Bearer " + e.Key + "x"},
		"shorter":             {"Authorization: Bearer " + e.Key[:len(e.Key)-1]},
		"upper case":          {"Authorization: Bearer " + strings.ToUpper(e.Key)},
		"expired":             {"Authorization: Bearer " + expired},
		"inactive":            {"Authorization: Bearer " + inactive},
		"basic":               {"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("key:"+e.Key))},
		"digest":              {"Authorization: Digest username=\"" + e.Key + "\""},
		"no scheme":           {"Authorization: " + e.Key},
		"token":               {"Authorization: Token " + e.Key},
		"quoted":              {`Authorization: Bearer "` + e.Key + `"`},
		"two blanks inside":   {"Authorization: Bearer " + e.Key[:10] + " " + e.Key[10:]},
		"cookie":              {"Cookie: api_key=" + e.Key},
		"Proxy-Authorization": {"Proxy-Authorization: Bearer " + e.Key},
		"x_api_key":           {"x_api_key: " + e.Key},
		"api-key":             {"api-key: " + e.Key},
		"wrong x-api-key":     {"x-api-key: wrong"},
		"hash":                {"Authorization: Bearer " + auth.HashKey(e.Key)},
		"huge":                {"Authorization: Bearer " + strings.Repeat("k", 5000)},
		"8-bit":               {"Authorization: Bearer \xff\xfe\xfd"},
	} {
		t.Run(name, func(t *testing.T) {
			e.unauthorized(t, rig.Chat.Path, "invalid_api_key", lines...)
		})
		c := e.Dial()
		_ = c.Send("POST " + rig.Chat.Path + " HTTP/1.1\r\nHost: edge\r\nContent-Length: 0\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n")
		texts[c.ReadReply("POST").Body] = true
	}
	if len(texts) != 1 {
		t.Errorf("the text tells why: %v", texts)
	}
	for _, lines := range [][]string{{"authorization: bearer " + e.Key}, {"AUTHORIZATION:   Bearer   " + e.Key + "  "}, {"X-API-KEY: " + e.Key}} {
		body := e.ChatRequest("")
		c := e.Dial()
		_ = c.Send("POST " + rig.Chat.Path + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + lines[0] + "\r\n\r\n" + body)
		c.ReadReply("POST").WantStatus(200)
	}
	if n := e.Engines[0].Stats().Requests; n != 3 {
		t.Errorf("%d requests upstream, want 3", n)
	}
}

func TestFault53_TwoCredentials(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	e := start(t, rig.Setup{Keys: `- { id: other, hash: "` + hash + `" }`})
	bearer := "Authorization: Bearer "
	for name, lines := range map[string][]string{
		"both differ":          {bearer + e.Key, "x-api-key: " + other},
		"one wrong":            {bearer + e.Key, "x-api-key: wrong"},
		"other wrong":          {bearer + "wrong", "x-api-key: " + e.Key},
		"two headers":          {bearer + e.Key, bearer + other},
		"two equal headers":    {bearer + e.Key, bearer + e.Key},
		"two x-api-key":        {"x-api-key: " + e.Key, "x-api-key: " + other},
		"two equal x-api-key":  {"x-api-key: " + e.Key, "X-Api-Key: " + e.Key},
		"list in one":          {bearer + e.Key + ", Bearer " + other},
		"list in x-api-key":    {"x-api-key: " + e.Key + ", " + other},
		"x-api-key not bearer": {"Authorization: Basic abc", "x-api-key: " + e.Key},
	} {
		t.Run(name, func(t *testing.T) {
			body := e.ChatRequest("")
			c := e.Dial()
			_ = c.Send("POST " + rig.Chat.Path + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
				strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
			r := c.ReadReply("POST").WantStatus(401)
			if !strings.Contains(r.Body, "credential_conflict") && !strings.Contains(r.Body, "invalid_api_key") {
				t.Errorf("answer = %s, want credential_conflict or invalid_api_key", r.Body)
			}
		})
	}
	e.WantServedAtMost(t, 0)
	e.Post(rig.Chat.Path, e.ChatRequest(""), "x-api-key: "+e.Key).WantStatus(200)
}

func TestFault54_CredentialInTheQuery(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{})
	for _, query := range []string{
		"api_key=%s", "api-key=%s", "apikey=%s", "APIKEY=%s", "Api_Key=%s", "key=%s", "access_token=%s", "token=%s", "x-api-key=%s", "X_API_KEY=%s",
		"authorization=Bearer%%20%s", "auth=%s", "bearer=%s", "secret=%s", "password=%s", "%%61pi_key=%s", "api%%5Fkey=%s", "api_key[]=%s", "api_key%%5B%%5D=%s",
		"x=1&api_key=%s", "x=1;api_key=%s", "api_key=", "api_key", "a.p.i.key=%s", "+api_key=%s", "api%%20key=%s", "api_key%%00=%s",
	} {
		q := query
		if strings.Contains(q, "%s") {
			q = fmt.Sprintf(query, e.Key)
		}
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			e.unauthorized(t, rig.Chat.Path+"?"+q, "credential_in_query")
			e.unauthorized(t, rig.Chat.Path+"?"+q, "credential_in_query", "Authorization: Bearer "+e.Key)
			r := e.Get("/v1/models?" + q)
			r.T = t
			r.WantRefused(rig.Chat, rig.Refusal{Status: 401, Kind: "authentication_error", Code: "credential_in_query", After: ""})
		})
	}
	t.Run("where no key is needed", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/health", "/openapi.json", "/openapi.yaml", "/v1/models/sim", "/v1/nothing", "/v1/messages"} {
			w := rig.Chat
			if target == rig.Messages.Path { // also with a method that the endpoint does not accept
				w = rig.Messages
			}
			r := e.Get(target + "?api_key=" + e.Key)
			r.T = t
			r.WantRefused(w, rig.Refusal{Status: 401, Kind: "authentication_error", Code: "credential_in_query", After: ""})
		}
		e.Do("HEAD", "/?api_key="+e.Key, "").WantStatus(401)
		e.Get("/health?beta=true").WantStatus(200)
	})
	t.Run("undecodable", func(t *testing.T) {
		t.Parallel()
		c := e.Dial()
		_ = c.Send(strings.Replace(e.RequestBytes(rig.Chat.Path, e.ChatRequest("")), rig.Chat.Path, rig.Chat.Path+"?%zz=1", 1))
		c.ReadReply("POST").WantStatus(400)
	})
	t.Run("harmless", func(t *testing.T) {
		t.Parallel()
		e.Post(rig.Chat.Path+"?beta=true&x=y", e.ChatRequest("")).WantStatus(200)
	})
	t.Cleanup(func() { e.WantServedAtMost(t, 1) })
}

func TestFault55_NoRightToTheModel(t *testing.T) {
	t.Parallel()
	e := start(t, rig.Setup{
		Engines: []sim.Options{{Record: true}}, Key: `models: ["sim"], operations: [chat]`,
		Models: `- { id: secret, aliases: [hidden], deployments: [{ upstream: up-0, served: sim }] }`,
	})
	for _, model := range []string{"secret", "hidden"} {
		r := e.Post(rig.Chat.Path, rig.ChatBody(model, ""))
		e := r.WantRefused(rig.Chat, rig.Refusal{Status: 403, Kind: "permission_error", Code: "model_not_allowed", After: ""})
		if e.Param == nil || *e.Param != "model" {
			t.Errorf("param %v", e.Param)
		}
	}
	e.Post(rig.Chat.Path, rig.ChatBody(`sec\u0072et`, "")).WantRefused(rig.Chat, rig.Refusal{Status: 403, Kind: "permission_error", Code: "model_not_allowed", After: ""})
	rest := `"messages":[{"role":"user","content":"x"}]}`
	for _, smuggled := range []string{
		`{"model":"sim","model":"secret",` + rest, `{"model":"secret","model":"sim",` + rest, `{"model":"sim","mod\u0065l":"secret",` + rest,
		`{"model":"sim","Model":"secret",` + rest, `{"MODEL":"secret","model":"sim",` + rest, `{"model":"sim",` + rest[:len(rest)-1] + `,"model":"secret"}`,
	} {
		e.Post(rig.Chat.Path, smuggled).WantRefused(rig.Chat, rig.Refusal{Status: 400, Kind: "invalid_request_error", Code: "duplicate_member", After: ""})
	}
	e.WantServedAtMost(t, 0)
	e.Post(rig.Chat.Path, rig.ChatBody("s\\u0069m", "")).WantStatus(200)
	if b := e.Engines[0].Stats().LastRequest.Body; strings.Contains(string(b), "secret") {
		t.Errorf("the engine was asked with %.100s", b)
	}
}
