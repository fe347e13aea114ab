package faults

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/auth"
)

// Rows 52 to 55: credentials that are no good.

// unauthorized sends header lines in place of the key and wants a 401 with the code.
func (e *edge) unauthorized(t *testing.T, target, code string, lines ...string) {
	t.Helper()
	body := e.chat("")
	c := e.dial()
	_ = c.send("POST " + target + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
		strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
	r := c.reply("POST")
	r.t = t
	r.wantRefused(chat, refusal{401, "authentication_error", code, ""})
	if got := r.header.Get("Www-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate %q", got)
	}
}

func TestFault52_BadCredentials(t *testing.T) {
	t.Parallel()
	expired, expiredHash, _ := auth.NewKey()
	inactive, inactiveHash, _ := auth.NewKey()
	e := start(t, setup{keys: `
- { id: expired, hash: "` + expiredHash + `", expires: 2020-01-01T00:00:00Z }
- { id: inactive, hash: "` + inactiveHash + `", active: false }
`})
	stranger, _, _ := auth.NewKey()
	near := e.key[:len(e.key)-1] + string(e.key[len(e.key)-1]^1)
	texts := map[string]bool{}
	for name, lines := range map[string][]string{
		"none":                {},
		"empty":               {"Authorization: "},
		"scheme alone":        {"Authorization: Bearer"},
		"scheme and blank":    {"Authorization: Bearer "},
		"wrong":               {"Authorization: Bearer wrong"},
		"stranger":            {"Authorization: Bearer " + stranger},
		"near":                {"Authorization: Bearer " + near},
		"longer":              {"Authorization: Bearer " + e.key + "x"},
		"shorter":             {"Authorization: Bearer " + e.key[:len(e.key)-1]},
		"upper case":          {"Authorization: Bearer " + strings.ToUpper(e.key)},
		"expired":             {"Authorization: Bearer " + expired},
		"inactive":            {"Authorization: Bearer " + inactive},
		"basic":               {"Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("key:"+e.key))},
		"digest":              {"Authorization: Digest username=\"" + e.key + "\""},
		"no scheme":           {"Authorization: " + e.key},
		"token":               {"Authorization: Token " + e.key},
		"quoted":              {`Authorization: Bearer "` + e.key + `"`},
		"two blanks inside":   {"Authorization: Bearer " + e.key[:10] + " " + e.key[10:]},
		"cookie":              {"Cookie: api_key=" + e.key},
		"Proxy-Authorization": {"Proxy-Authorization: Bearer " + e.key},
		"x_api_key":           {"x_api_key: " + e.key},
		"api-key":             {"api-key: " + e.key},
		"wrong x-api-key":     {"x-api-key: wrong"},
		"hash":                {"Authorization: Bearer " + auth.Hash(e.key)},
		"huge":                {"Authorization: Bearer " + strings.Repeat("k", 5000)},
		"8-bit":               {"Authorization: Bearer \xff\xfe\xfd"},
	} {
		t.Run(name, func(t *testing.T) {
			e.unauthorized(t, chat.path, "invalid_api_key", lines...)
		})
		c := e.dial()
		_ = c.send("POST " + chat.path + " HTTP/1.1\r\nHost: edge\r\nContent-Length: 0\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n")
		texts[c.reply("POST").body] = true
	}
	if len(texts) != 1 {
		t.Errorf("the text tells why: %v", texts)
	}
	for _, lines := range [][]string{{"authorization: bearer " + e.key}, {"AUTHORIZATION:   Bearer   " + e.key + "  "}, {"X-API-KEY: " + e.key}} {
		body := e.chat("")
		c := e.dial()
		_ = c.send("POST " + chat.path + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" + lines[0] + "\r\n\r\n" + body)
		c.reply("POST").wantStatus(200)
	}
	if n := e.engines[0].Stats().Requests; n != 3 {
		t.Errorf("%d requests upstream, want 3", n)
	}
}

func TestFault53_TwoCredentials(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	e := start(t, setup{keys: `- { id: other, hash: "` + hash + `" }`})
	bearer := "Authorization: Bearer "
	for name, lines := range map[string][]string{
		"both differ":          {bearer + e.key, "x-api-key: " + other},
		"one wrong":            {bearer + e.key, "x-api-key: wrong"},
		"other wrong":          {bearer + "wrong", "x-api-key: " + e.key},
		"two headers":          {bearer + e.key, bearer + other},
		"two equal headers":    {bearer + e.key, bearer + e.key},
		"two x-api-key":        {"x-api-key: " + e.key, "x-api-key: " + other},
		"two equal x-api-key":  {"x-api-key: " + e.key, "X-Api-Key: " + e.key},
		"list in one":          {bearer + e.key + ", Bearer " + other},
		"list in x-api-key":    {"x-api-key: " + e.key + ", " + other},
		"x-api-key not bearer": {"Authorization: Basic abc", "x-api-key: " + e.key},
	} {
		t.Run(name, func(t *testing.T) {
			body := e.chat("")
			c := e.dial()
			_ = c.send("POST " + chat.path + " HTTP/1.1\r\nHost: edge\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n" +
				strings.Join(append(lines, ""), "\r\n") + "\r\n" + body)
			r := c.reply("POST").wantStatus(401)
			if !strings.Contains(r.body, "credential_conflict") && !strings.Contains(r.body, "invalid_api_key") {
				t.Errorf("%s", r.body)
			}
		})
	}
	e.wantUnserved(t, 0)
	e.post(chat.path, e.chat(""), "x-api-key: "+e.key).wantStatus(200)
}

func TestFault54_CredentialInTheQuery(t *testing.T) {
	t.Parallel()
	e := start(t, setup{})
	for _, query := range []string{
		"api_key=%s", "api-key=%s", "apikey=%s", "APIKEY=%s", "Api_Key=%s", "key=%s", "access_token=%s", "token=%s", "x-api-key=%s", "X_API_KEY=%s",
		"authorization=Bearer%%20%s", "auth=%s", "bearer=%s", "secret=%s", "password=%s", "%%61pi_key=%s", "api%%5Fkey=%s", "api_key[]=%s", "api_key%%5B%%5D=%s",
		"x=1&api_key=%s", "x=1;api_key=%s", "api_key=", "api_key", "a.p.i.key=%s", "+api_key=%s", "api%%20key=%s", "api_key%%00=%s",
	} {
		q := query
		if strings.Contains(q, "%s") {
			q = fmt.Sprintf(query, e.key)
		}
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			e.unauthorized(t, chat.path+"?"+q, "credential_in_query")
			e.unauthorized(t, chat.path+"?"+q, "credential_in_query", "Authorization: Bearer "+e.key)
			r := e.get("/v1/models?" + q)
			r.t = t
			r.wantRefused(chat, refusal{401, "authentication_error", "credential_in_query", ""})
		})
	}
	t.Run("where no key is needed", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/health", "/openapi.json", "/openapi.yaml", "/v1/models/sim", "/v1/nothing", "/v1/messages"} {
			w := chat
			if target == messages.path { // another method than the endpoint's
				w = messages
			}
			r := e.get(target + "?api_key=" + e.key)
			r.t = t
			r.wantRefused(w, refusal{401, "authentication_error", "credential_in_query", ""})
		}
		e.do("HEAD", "/?api_key="+e.key, "").wantStatus(401)
		e.get("/health?beta=true").wantStatus(200)
	})
	t.Run("undecodable", func(t *testing.T) {
		t.Parallel()
		c := e.dial()
		_ = c.send(strings.Replace(e.request(chat.path, e.chat("")), chat.path, chat.path+"?%zz=1", 1))
		c.reply("POST").wantStatus(400)
	})
	t.Run("harmless", func(t *testing.T) {
		t.Parallel()
		e.post(chat.path+"?beta=true&x=y", e.chat("")).wantStatus(200)
	})
	t.Cleanup(func() { e.wantUnserved(t, 1) })
}

func TestFault55_NoRightToTheModel(t *testing.T) {
	t.Parallel()
	e := start(t, setup{
		engines: []sim.Options{{Record: true}}, key: `models: ["sim"], operations: [chat]`,
		models: `- { id: secret, aliases: [hidden], deployments: [{ upstream: up-0, served: sim }] }`,
	})
	for _, model := range []string{"secret", "hidden"} {
		r := e.post(chat.path, chatBody(model, ""))
		e := r.wantRefused(chat, refusal{403, "permission_error", "model_not_allowed", ""})
		if e.Param == nil || *e.Param != "model" {
			t.Errorf("param %v", e.Param)
		}
	}
	e.post(chat.path, chatBody(`sec\u0072et`, "")).wantRefused(chat, refusal{403, "permission_error", "model_not_allowed", ""})
	rest := `"messages":[{"role":"user","content":"x"}]}`
	for _, smuggled := range []string{
		`{"model":"sim","model":"secret",` + rest, `{"model":"secret","model":"sim",` + rest, `{"model":"sim","mod\u0065l":"secret",` + rest,
		`{"model":"sim","Model":"secret",` + rest, `{"MODEL":"secret","model":"sim",` + rest, `{"model":"sim",` + rest[:len(rest)-1] + `,"model":"secret"}`,
	} {
		e.post(chat.path, smuggled).wantRefused(chat, refusal{400, "invalid_request_error", "duplicate_member", ""})
	}
	e.wantUnserved(t, 0)
	e.post(chat.path, chatBody("s\\u0069m", "")).wantStatus(200)
	if b := e.engines[0].Stats().LastRequest.Body; strings.Contains(string(b), "secret") {
		t.Errorf("the engine was asked with %.100s", b)
	}
}
