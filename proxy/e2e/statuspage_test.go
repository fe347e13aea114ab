package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/status"
)

// These tests check the status page: access, content, updates, and the operator's actions.

// adminDo sends a request to the admin listener. A token is sent as a password, as browsers do.
func (p *penstock) adminDo(method, path, body, token string, header ...string) *http.Response {
	p.T.Helper()
	req, err := http.NewRequest(method, p.Admin+path, strings.NewReader(body))
	if err != nil {
		p.T.Fatal(err)
	}
	if token != "" {
		req.SetBasicAuth("operator", token)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: p.Client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() { res.Body.Close() })
	return res
}

func (p *penstock) mode(upstream, mode, token string, header ...string) int {
	return p.adminDo(http.MethodPost, "/-/mode", url.Values{"upstream": {upstream}, "mode": {mode}}.Encode(), token, header...).StatusCode
}

func TestStatusPageAccess(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "admin: { token: " + rig.AdminToken + " }"})
	for _, path := range []string{"/", "/status", "/status/events", "/metrics"} {
		res := p.adminDo("GET", path, "", "", "Accept: text/html")
		if res.StatusCode != 401 || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s without the token: %d, %s", path, res.StatusCode, res.Header.Get("WWW-Authenticate"))
		}
		if res := p.adminDo("GET", path, "", "wrong"); res.StatusCode != 401 || res.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s with a wrong token: %d", path, res.StatusCode)
		}
		if res := p.adminDo("GET", path, "", rig.AdminToken); res.StatusCode != 200 {
			t.Errorf("%s with the token: %d", path, res.StatusCode)
		}
	}
	res := p.adminDo("GET", "/", "", rig.AdminToken)
	if csp := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy = %q, want default-src 'none' and nothing unsafe", csp)
	}
	if p.mode("up-0", "drain", rig.AdminToken, "Origin: http://evil.example") != 403 {
		t.Error("another page may drain")
	}
	if p.mode("up-0", "drain", "") != 401 {
		t.Error("nobody may drain")
	}
	if p.mode("up-0", "sleep", rig.AdminToken) != 400 || p.mode("up-9", "drain", rig.AdminToken) != 404 {
		t.Error("a wrong mode or name was taken")
	}
}

// TestAdminRequests checks that HEAD works wherever GET works, that authentication schemes are
// case-insensitive, and that errors in operators' requests do not count as API errors.
func TestAdminRequests(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "admin: { token: " + rig.AdminToken + " }"})
	for _, path := range []string{"/", "/status", "/metrics", "/-/usage", "/-/ready"} {
		if res := p.adminDo("HEAD", path, "", rig.AdminToken); res.StatusCode != 200 {
			t.Errorf("HEAD %s = %d, want 200", path, res.StatusCode)
		}
		if res := p.adminDo("DELETE", path, "", rig.AdminToken); res.StatusCode != 405 || res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("DELETE %s: %d, Allow: %s", path, res.StatusCode, res.Header.Get("Allow"))
		}
	}
	for given, want := range map[string]int{
		"Bearer " + rig.AdminToken: 200, "bearer " + rig.AdminToken: 200, "BEARER  " + rig.AdminToken: 200,
		"basic " + base64.StdEncoding.EncodeToString([]byte("x:"+rig.AdminToken)): 200,
		"Bearer":                  401,
		rig.AdminToken:            401,
		"Token " + rig.AdminToken: 401,
		"":                        401,
	} {
		if res := p.adminDo("GET", "/status", "", "", "Authorization: "+given); res.StatusCode != want {
			t.Errorf("Authorization: %s: %d, want %d", given, res.StatusCode, want)
		}
	}
	p.adminDo("GET", "/nothing", "", rig.AdminToken)
	p.adminDo("POST", "/-/mode", "", rig.AdminToken)
	if n := p.Metric("penstock_errors_total"); n != 0 {
		t.Errorf("%v errors of the API, and no call was made", n)
	}
	if r := p.Do("GET", "/nothing", ""); r.Status != 404 || p.Metric("penstock_errors_total", `code="not_found"`) != 1 {
		t.Errorf("an error of the API is not counted: %d", r.Status)
	}
}

func TestModeNeedsAToken(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	if p.mode("up-0", "drain", "") != 403 {
		t.Error("an edge without an admin token lets anybody drain")
	}
	if s, _ := p.state(); s.Upstreams[0].State != "up" {
		t.Error("and it did")
	}
}

// TestDrainAndMaintenance checks that a drained upstream finishes its calls and receives no new
// calls, and that an upstream in maintenance is not probed.
func TestDrainAndMaintenance(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: "probe: { interval: 100ms }", Model: "policy: round_robin", Top: "admin: { token: " + rig.AdminToken + " }"})
	seen := func(i int) int64 { return p.Engines[i].Stats().Requests }
	s := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
	s.Next()
	held := 0
	if p.Engines[1].Stats().Running == 1 {
		held = 1
	}
	name := []string{"up-0", "up-1"}[held]
	if got := p.mode(name, "drain", rig.AdminToken, "Origin: "+p.Admin); got != 303 {
		t.Fatalf("drain = %d, want 303", got)
	}
	before := seen(held)
	for range 6 {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	if seen(held) != before {
		t.Error("a drained upstream got a call")
	}
	if _, ok := s.Next(); !ok {
		t.Error("the running stream was cut")
	}
	s.Disconnect()
	if p.mode(name, "maintenance", rig.AdminToken) != 303 {
		t.Fatal("maintenance")
	}
	p.Engines[held].Unlisten()
	time.Sleep(500 * time.Millisecond) // enough time for a few probes
	res := p.adminDo("GET", "/status", "", rig.AdminToken)
	var st state
	if err := json.NewDecoder(res.Body).Decode(&st); err != nil {
		t.Fatal(err)
	}
	if st.Upstreams[held].State != "up" || !strings.Contains(st.targetReason(name), "maintenance") {
		t.Errorf("an upstream in maintenance was probed: %+v, %s", st.Upstreams[held], st.targetReason(name))
	}
	if err := p.Engines[held].Relisten(); err != nil {
		t.Fatal(err)
	}
	// Scripts send JSON.
	for body, want := range map[string]int{
		`{"upstream":"` + name + `","mode":"sleep"}`: 400, `{"upstream":"nobody","mode":"drain"}`: 404, `{"upstream":`: 400, `{"upstream":3}`: 400,
		`nonsense`: 400, `["drain"]`: 400, ``: 400,
	} {
		if res := p.adminDo(http.MethodPost, "/-/mode", body, rig.AdminToken, "Content-Type: application/json"); res.StatusCode != want {
			t.Errorf("mode with %s = %d, want %d", body, res.StatusCode, want)
		} else if text, _ := io.ReadAll(res.Body); !strings.Contains(body, `","mode":`) && !strings.Contains(string(text), "The body is neither a JSON object nor a form with upstream and mode: send ") {
			t.Errorf("%q: %s", body, text)
		}
	}
	if res := p.adminDo(http.MethodPost, "/-/mode", `{"upstream":"`+name+`","mode":"ready"}`, rig.AdminToken, "Content-Type: application/json"); res.StatusCode != 200 {
		t.Fatalf("mode ready = %d, want 200", res.StatusCode)
	}
	rig.WaitFor(t, rig.WaitTimeout, "it is used again", func() bool {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		return seen(held) > before
	})
}

// TestStatusEvents checks that an open page receives changes, and does not delay the edge's exit.
func TestStatusEvents(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{TokenRate: 50}}, Upstream: "concurrency: 1"})
	res := p.adminDo("GET", "/status/events", "", "")
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answer = %d %s, want 200 text/event-stream", res.StatusCode, res.Header.Get("Content-Type"))
	}
	lines := bufio.NewReader(res.Body)
	next := func() map[string]string {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var e struct {
					Sections map[string]status.SectionUpdate
				}
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatal(err)
				}
				texts := map[string]string{}
				for id, r := range e.Sections {
					if r.Frame != nil {
						texts[id] = *r.Frame
					}
					for _, row := range r.Rows {
						texts[id] += row.Text
						for _, cell := range row.Cells {
							texts[id] += cell
						}
					}
				}
				return texts
			}
		}
	}
	if first := next(); len(first) != len(status.Sections) || !strings.Contains(first["verdict"], "Healthy") {
		t.Errorf("the first event has %d sections: %s", len(first), first["verdict"])
	}
	s := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
	s.Next()
	full, streaming := false, false // each change is sent only once
	rig.WaitFor(t, rig.WaitTimeout, "the model is shown as full and the call as streaming", func() bool {
		e := next()
		full, streaming = full || strings.Contains(e["models"], "full"), streaming || strings.Contains(e["calls"], "▸▸▸ streaming")
		return full && streaming
	})
	s.Disconnect()
	rig.WaitFor(t, rig.WaitTimeout, "the client is shown to have left", func() bool { return strings.Contains(next()["calls"], "client left") })
}

// TestMetricsCompressed checks that a scraper that accepts gzip receives the same page compressed,
// and that other scrapers receive it uncompressed.
func TestMetricsCompressed(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	read := func(encoding string) (*http.Response, []byte) {
		t.Helper()
		res := p.adminDo("GET", "/metrics", "", "", "Accept-Encoding: "+encoding)
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || res.Header.Get("Vary") != "Accept, Accept-Encoding" {
			t.Fatalf("metrics = %d %v, %v; want 200 and Vary: Accept, Accept-Encoding", res.StatusCode, res.Header, err)
		}
		return res, body
	}
	plain, text := read("identity")
	if plain.Header.Get("Content-Encoding") != "" || !bytes.Contains(text, []byte("# TYPE penstock_build_info gauge")) {
		t.Errorf("plain metrics = %v %.200s, want the build info", plain.Header, text)
	}
	packed, small := read("gzip, deflate")
	if packed.Header.Get("Content-Encoding") != "gzip" || 3*len(small) > len(text) {
		t.Errorf("gzip: %v, %d of %d bytes", packed.Header, len(small), len(text))
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := io.ReadAll(unpacked); err != nil || !bytes.Contains(whole, []byte("# TYPE penstock_build_info gauge")) {
		t.Errorf("packed metrics = %.200s, %v; want the build info", whole, err)
	}
}
