package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/config/testkit/raced"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 91, 92 and 94 to 96 of the fault matrix: information that the edge
// reveals, and information that it must never reveal.

func TestFault91_OnlyTheAPIIsPublic(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for _, path := range []string{
		"/metrics", "/debug/pprof", "/debug/pprof/", "/debug/vars", "/admin", "/status", "/-/reload", "/-/ready", "/-/usage", "/config", "/slots", "/props", "/v1/internal/ui",
		"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/server_info", "/get_server_info", "/flush_cache", "/start_profile", "/reset_prefix_cache", "/sleep", "/wake_up",
		"/version", "/load", "/ping", "/inference", "/api/chat", "/api/tags", "/api/generate", "/sim/stats", "/sim/fault", "/sim/reset", "/docs", "/redoc", "/.git/config", "/favicon.ico", "/robots.txt", "/index.html",
	} {
		for _, method := range []string{"GET", "POST"} {
			for _, header := range []string{"X-Nothing: 1", "Authorization: "} {
				r := p.Do(method, path, "{}", header)
				if r.Status != 404 {
					t.Errorf("%s %s (%s) = %d, want 404", method, path, header, r.Status)
				}
			}
		}
	}
	p.WantServedAtMost(t, 0)
	if r := p.Get("/health").WantStatus(200); r.Body != `{"status":"ok"}` {
		t.Errorf("health says %s", r.Body)
	}
	if r := p.Do("HEAD", "/", ""); r.Status != 204 || r.Body != "" {
		t.Errorf("HEAD / is %d %q", r.Status, r.Body)
	}
	// The admin listener serves no part of the API.
	for _, path := range []string{"/v1/models", "/v1/chat/completions", "/debug/pprof/", "/health"} {
		res, err := p.Client.Get(p.Admin + path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 404 {
			t.Errorf("admin %s: status %d", path, res.StatusCode)
		}
	}
	// A web page that calls the admin listener must not be able to read the response.
	for _, header := range []string{"Origin: http://evil.example", "Host: evil.example"} {
		req, _ := http.NewRequest("GET", p.Admin+"/metrics", nil)
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
		res, err := p.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != 403 {
			t.Errorf("admin with %s: status %d", header, res.StatusCode)
		}
	}
}

func TestFault92_NoSeriesFromClients(t *testing.T) {
	fastset.SkipIfShort(t, "metrics under strange clients")
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 100000 }"})
	knock := func(i int) {
		id := fmt.Sprintf("%s-%d", rig.Canary, i)
		p.Post(chatPath, rig.ChatBody(id, ""), "User-Agent: "+id, "X-Request-Id: "+id, "Traceparent: "+id)
		p.Do("GET", "/"+id, "")
		p.Do("GET", "/v1/models/"+id, "")
		p.Do("POST", "/v1/"+id, "{}")
		p.Do(fmt.Sprintf("M%d", i), "/v1/models", "")
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+id)
		p.Get("/v1/models?x=" + id)
	}
	p.Post(chatPath, p.ChatRequest(""))
	knock(0)
	before := p.Series()
	for i := range 300 {
		knock(i + 1)
	}
	if after := p.Series(); !slices.Equal(before, after) {
		for _, s := range after {
			if !slices.Contains(before, s) {
				t.Errorf("a new series: %s", s)
			}
		}
	}
}

// steeringHeaders are client headers that must not reach an engine.
var steeringHeaders = []string{
	"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "X-Forwarded-Prefix: /x", "Forwarded: for=1.2.3.4", "X-Real-IP: 1.2.3.4", "Via: 1.1 evil",
	"X-Internal-Token: t", "X-Internal-User: admin", "X-Envoy-Upstream: x", "X-Gateway-Destination-Endpoint: 10.0.0.1:80", "X-Data-Parallel-Rank: 3", "X-Session-Id: s", "X-Vllm-Priority: 9",
	"X-Sim-Tokens: 3", "Cookie: session=" + rig.Canary, "Proxy-Authorization: Basic eA==", "Proxy-Connection: keep-alive", "TE: trailers", "Trailer: X-Late",
	"X-Listed: hop", "Accept-Language: de", "Referer: http://" + rig.Canary, "Origin: https://evil.example", "X-Api-Version: 1", "OpenAI-Organization: org", "OpenAI-Beta: assistants=v1", "X-Stainless-Lang: go",
	"Priority: u=0", "Range: bytes=0-1", "If-None-Match: *", "Accept-Encoding: gzip", "User-Agent: " + rig.Canary, "Baggage: k=v", "Tracestate: k=v",
}

func TestFault94_ClientHeadersStayHere(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine()})
	body := p.ChatRequest("")
	c := p.Dial()
	lines := append([]string{"Connection: keep-alive, X-Listed, Authorization, Content-Length"}, steeringHeaders...)
	_ = c.Send(p.RequestBytes(chatPath, body, lines...))
	c.ReadReply("POST").WantStatus(200)
	got := p.Engines[0].Stats().LastRequest
	allowed := []string{"Host", "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "X-Request-Id", "Connection"}
	for _, h := range got.Header {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, h.Name) }) {
			t.Errorf("%s: %s reached the engine", h.Name, h.Value)
		}
		if strings.Contains(h.Value, rig.Canary) || strings.Contains(h.Value, p.Key) || strings.Contains(h.Value, "evil") {
			t.Errorf("%s has a client's value: %q", h.Name, h.Value)
		}
	}
	if got.Get("Accept-Encoding") != "identity" || !strings.HasPrefix(got.Get("User-Agent"), "penstock") {
		t.Errorf("Accept-Encoding %q, User-Agent %q", got.Get("Accept-Encoding"), got.Get("User-Agent"))
	}
	if got.Target != chatPath {
		t.Errorf("target = %q, want %q", got.Target, chatPath)
	}
	// A trace header is passed on only if it is well-formed.
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.Post(chatPath, body, "Traceparent: "+trace, "Tracestate: a=1,b=2").WantStatus(200)
	if last := p.Engines[0].Stats().LastRequest; last.Get("Traceparent") != trace || last.Get("Tracestate") != "a=1,b=2" {
		t.Errorf("traceparent %q, tracestate %q", last.Get("Traceparent"), last.Get("Tracestate"))
	}
	for _, bad := range []string{"x", strings.Repeat("0", 55), trace + "x", strings.ToUpper(trace)} {
		p.Post(chatPath, body, "Traceparent: "+bad, "Tracestate: a=1").WantStatus(200)
		if last := p.Engines[0].Stats().LastRequest; last.Get("Traceparent") != "" || last.Get("Tracestate") != "" {
			t.Errorf("traceparent %q, tracestate %q went through", last.Get("Traceparent"), last.Get("Tracestate"))
		}
	}
	// The edge uses the client's request id only if it is a plain word.
	for _, id := range []string{"bad id", "<script>", strings.Repeat("a", 65), "a\x7fb", rig.Canary + "/x"} {
		r := p.Post(chatPath, body, "X-Request-Id: "+strings.ReplaceAll(id, "\x7f", "%"))
		if r.Status == 200 && (strings.Contains(r.Header.Get("X-Request-Id"), id) || strings.Contains(p.Engines[0].Stats().LastRequest.Get("X-Request-Id"), id)) {
			t.Errorf("the request id %q was taken over", id)
		}
	}
}

func TestFault95_EngineHeadersStayHere(t *testing.T) {
	t.Parallel()
	both(t, rig.Setup{}, func(t *testing.T, p *penstock, body string) {
		p.Engines[0].SetFault(sim.Fault{Spec: "leak-headers"})
		r := p.Post(chatPath, body, "Origin: https://app.example").WantStatus(200)
		allowed := strings.Fields("Content-Type Content-Length Cache-Control X-Accel-Buffering X-Request-Id Request-Id Date Retry-After Connection Transfer-Encoding Vary")
		for name, values := range r.Header {
			if !slices.Contains(allowed, name) {
				t.Errorf("%s: %v reached the client", name, values)
			}
		}
		if r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("Cache-Control %q", r.Header.Get("Cache-Control"))
		}
		rig.WantNoLeak(t, "the answer", r.Body, "127.0.0.1:")
	})
}

// TestFault96_NothingIsKept puts canaries wherever a client can put text, in valid and invalid
// calls, and searches all output of the edge. (In every test, the rig searches the log for the
// prompt.)
func TestFault96_NothingIsKept(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: "probe: { interval: 100ms }", Timeouts: "first_event: 2s, answer: 2s, client_body: 1s"})
	const word = "QQCANARYQQ"
	var shown strings.Builder
	see := func(r *rig.Reply) {
		if r.Status != 200 { // a valid answer may repeat the prompt
			// The word comes from the client.
			shown.WriteString(strings.Replace(r.Body, `The model \"`+word+`\" does not exist`, "", 1))
		}
		for name, values := range r.Header {
			fmt.Fprintln(&shown, name, values)
		}
	}
	prompt := strings.ReplaceAll(p.ChatRequest(""), rig.Canary, word)
	for _, fault := range []string{
		"", "status=400;message=your prompt was: nice", "status=500", "status=429", "blackhole", "reset-before", "garbage-head", "html-200", "invalid-json", "error-first;code=500", "error-first;code=503",
		"error-in-stream", "reset-after", "no-finish", "endless-line", "redirect", "status=401", "status=404",
	} {
		for _, w := range streamModes {
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			body := prompt
			if w.more != "" {
				body = strings.TrimSuffix(body, "}") + "," + w.more + "}"
			}
			see(p.Post(chatPath, body))
		}
	}
	p.Engines[0].SetFault()
	rig.WaitFor(t, rig.WaitTimeout, "the engine is used again", func() bool { return p.Post(chatPath, prompt).Status == 200 })
	see(p.Post(chatPath, rig.ChatBody(word, "")))
	see(p.Post(chatPath, p.ChatRequest(`"temperature":"`+word+`"`)))
	see(p.Post(chatPath, p.ChatRequest(`"messages":"`+word+`"`)))
	see(p.Post(chatPath, p.ChatRequest(`"tools":[{"type":"`+word+`"}]`)))
	see(p.Post(chatPath, `{"`+word+`":`))
	see(p.Post(chatPath, `{"model":"sim","messages":[{"role":"`+word+`","content":"x"}]}`))
	see(p.Post(chatPath, rig.VisionBody("http://"+word+".example/x", "")))
	see(p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+word))
	see(p.Post(chatPath, p.ChatRequest(""), "x-api-key: "+word))
	see(p.Post(chatPath+"?api_key="+word, p.ChatRequest("")))
	see(p.Post(chatPath+"?"+word+"="+word, p.ChatRequest("")))
	see(p.Do("GET", "/"+word, ""))
	see(p.Do("GET", "/v1/models/"+word, ""))
	see(p.Do(word, chatPath, "{}"))
	see(p.Post(chatPath, p.ChatRequest(""), "User-Agent: "+word, "Cookie: "+word, "X-Request-Id: "+word+"!", "Referer: "+word, word+": "+word))
	see(p.Post(chatPath, p.ChatRequest(""), "Content-Encoding: "+word))
	see(p.Post(chatPath, p.ChatRequest(""), "Content-Type: "+word+"/"+word))
	for _, text := range []string{
		"GET /" + word + " HTTP/9.9\r\n\r\n", word + "\r\n\r\n", "POST " + chatPath + " HTTP/1.1\r\n" + word + "\r\n\r\n", "GET /health HTTP/1.1\r\nHost: " + word + "/#\r\n\r\n",
		p.RequestHead("POST", chatPath, "Content-Type: application/json", "Content-Length: 500") + word,
	} {
		c := p.Dial()
		_ = c.Send(text)
		if r, err := c.TryReadReply("POST"); err == nil {
			see(r)
		}
	}
	s := p.OpenStream(chatPath, strings.TrimSuffix(prompt, "}")+","+endlessStream+"}")
	s.Next()
	s.Disconnect()
	told := len(p.AccessLinesWhenIdle())
	for what, text := range map[string]string{"the log": p.Log.String(), "the metrics": p.MetricsText(), "an answer": shown.String()} {
		if i := strings.Index(text, word); i >= 0 {
			t.Errorf("%s holds a client's word: …%s…", what, text[max(0, i-200):min(len(text), i+100)])
		}
	}
	if told < 40 {
		t.Errorf("only %d access lines: the test has not reached what it is about", told)
	}
}

// TestTwoTenants sends calls with two keys at the same time. Every prompt of a key contains a word
// that belongs to this key, and the engine repeats the word. No answer may contain the other key's
// word.
func TestTwoTenants(t *testing.T) {
	t.Parallel()
	other, hash, _ := auth.NewKey()
	p := start(t, rig.Setup{Engines: rig.TwoEngines(), Keys: `- { id: other, hash: "` + hash + `" }`})
	keys := []string{p.Key, other}
	words := []string{"ALPHA-CANARY", "BRAVO-CANARY"}
	calls := 60
	if raced.Enabled {
		calls = 15
	}
	var wg sync.WaitGroup
	for w := range 16 {
		tenant := w % 2
		wg.Go(func() {
			for i := range calls {
				n := 1 + (i*37+w*101)%300
				text := fmt.Sprintf("%s %d/%d %s", words[tenant], w, i, strings.Repeat(words[tenant]+" ", n))
				more := `"sim":{"text":"` + text + `"}`
				switch i % 5 {
				case 1, 2:
					more = `"stream":true,` + more
				case 3:
					more = `"stream":true,"sim":{"text":"` + text + `","fault":"reset-after=4"}`
				case 4:
					more = `"sim":{"text":"` + text + `","fault":"split;gap=0s"}`
				}
				r := p.Post(chatPath, p.ChatRequest(more), "Authorization: Bearer "+keys[tenant])
				if strings.Contains(r.Body, words[1-tenant]) {
					t.Errorf("tenant %d was shown the other's words", tenant)
				}
				if r.Status != 200 {
					if i%5 != 3 && r.Status != 503 { // the resets may have opened the breaker
						t.Errorf("status = %d, want 503: %s", r.Status, r.Body)
					}
					continue
				}
				got := r.Body
				if strings.Contains(more, `"stream"`) {
					got, _ = rig.StreamText(t, rig.ChatStream, r.Events())
				}
				if i%5 != 3 && !strings.Contains(got, text) {
					t.Errorf("the answer is not the call's own: %.100q, want %.100q", got, text)
				}
			}
		})
	}
	wg.Wait()
	for _, l := range p.AccessLinesWhenIdle() {
		if l.Key != "tester" && l.Key != "other" {
			t.Errorf("a call of the key %q", l.Key)
		}
	}
}
