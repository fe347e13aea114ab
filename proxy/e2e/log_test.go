package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/config"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/observe"
)

// These tests check the access log: its fields, its headers, and that calls never wait for the log.

// TestAccessFields checks the fields and their order, because operators parse access lines.
func TestAccessFields(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	p.WaitIdle()
	var line string
	rig.WaitFor(t, rig.WaitTimeout, "the line is written", func() bool {
		for l := range strings.Lines(p.Log.String()) {
			if strings.Contains(l, `"msg":"call"`) {
				line = l
			}
		}
		return line != ""
	})
	var fields []string
	dec := json.NewDecoder(strings.NewReader(line))
	for depth, key := 0, true; ; {
		tok, err := dec.Token()
		if err != nil {
			break
		}
		if d, ok := tok.(json.Delim); ok {
			if depth++; d == '}' {
				depth -= 2
			}
			continue
		}
		if key {
			fields = append(fields, tok.(string))
		}
		key = !key
	}
	want := strings.Fields("level ts msg request_id key dialect model upstream pool stream status code outcome attempts prompt_tokens completion_tokens tokens_estimated queue_ms ttft_ms duration_ms bytes_in bytes_out client")
	if !slices.Equal(fields, want) {
		t.Errorf("fields = %v, want %v", fields, want)
	}
}

// TestAccessSwitch checks that a reload enables and disables the access log.
func TestAccessSwitch(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true}) // there are fewer access lines than calls
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the first call is logged", func() bool { return len(p.AccessLines()) == 1 })
	for i, on := range []bool{false, true} {
		next := *p.Next
		next.Log.Access = on
		p.Next = &next
		res, err := p.Client.Post(p.Admin+"/-/reload", "", nil)
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		res.Body.Close()
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		p.WaitIdle()
		rig.WaitFor(t, rig.WaitTimeout, "the call is counted", func() bool { return p.Metric("penstock_calls_finished_total") == float64(i+2) })
		rig.WaitFor(t, rig.WaitTimeout, "the lines are as many as wanted", func() bool { return len(p.AccessLines()) == i+1 })
	}
}

// TestClientAddress checks that, if log.client is set, only the access line contains the peer's
// address.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		p := start(t, rig.Setup{Top: fmt.Sprintf("log: { client: %v }", on)})
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		p.WaitIdle()
		want := map[bool]string{false: `"client":"-"`, true: `"client":"127.0.0.1"`}[on]
		rig.WaitFor(t, rig.WaitTimeout, "the line is written", func() bool { return strings.Contains(p.Log.String(), want) })
	}
}

func TestDebugHeaders(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "log: { debug_headers: true }", Upstream: "concurrency: 1"})
	h := p.Post(chatPath, p.ChatRequest("")).WantStatus(200).Header
	for name, want := range map[string]string{"X-Penstock-Model": "sim", "X-Penstock-Upstream": "up-0", "X-Penstock-Pool": "text", "X-Penstock-Attempts": "1", "X-Penstock-Code": ""} {
		if h.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, h.Get(name), want)
		}
	}
	s := p.OpenStream(chatPath, p.ChatRequest(endlessStream))
	s.Next()
	h = p.Post(chatPath, p.ChatRequest("")).WantStatus(429).Header
	if h.Get("X-Penstock-Code") != "capacity_full" || h.Get("X-Penstock-Attempts") != "0" {
		t.Errorf("a refusal says %v", h)
	}
	s.Disconnect()
	for name := range start(t, rig.Setup{}).Post(chatPath, rig.ChatBody("sim", "")).Header {
		if strings.HasPrefix(name, "X-Penstock-") {
			t.Errorf("%s without being asked for", name)
		}
	}
}

// comparePace sends calls to both edges in turn, four at a time. It compares the latencies of p
// with those of control, whose log never blocks. The medians must be close, and no call may take
// much longer than control's longest call.
func comparePace(t *testing.T, calls int, p, control *penstock) {
	t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		times [2][]time.Duration
	)
	for range 4 {
		wg.Go(func() {
			for range calls / 4 {
				for i, edge := range []*penstock{p, control} {
					took := edge.Post(chatPath, edge.ChatRequest("")).WantStatus(200).Took
					mu.Lock()
					times[i] = append(times[i], took)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	median := func(of []time.Duration) time.Duration { slices.Sort(of); return of[len(of)/2] }
	got, want := median(times[0]), median(times[1])
	worst, wantWorst := slices.Max(times[0]), slices.Max(times[1])
	t.Logf("half of the calls within %v, all within %v; of the control %v and %v", got, worst, want, wantWorst)
	if got > 2*want+5*time.Millisecond {
		t.Errorf("half of the calls took more than %v, half of the control's %v", got, want)
	}
	if worst > 3*wantWorst+time.Second {
		t.Errorf("a call took %v, the latest of the control %v", worst, wantWorst)
	}
}

// TestBlockedLog checks that calls are not delayed if the log's pipe has no reader.
func TestBlockedLog(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	sink := observe.NewLogSink(w, nil)
	log, err := observe.NewLogger(config.Log{Level: "info", Format: "json"}, sink)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, rig.Setup{Log: log})
	comparePace(t, 600, p, start(t, rig.Setup{})) // more lines than fit into the pipe
	r.Close()                                     // unblocks the writer
	p.End()
	_ = sink.Close()
	w.Close()
}

func TestUsagePage(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }"})
	for range 3 {
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	}
	p.Post(chatPath, rig.ChatBody("other", `"stream":true`)).WantStatus(200)
	p.Post(chatPath, rig.ChatBody("none", "")).WantStatus(404)
	p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer nobody").WantStatus(401)
	p.WaitIdle()
	res, err := p.Client.Get(p.Admin + "/-/usage")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var u observe.UsageReport
	if err := json.NewDecoder(res.Body).Decode(&u); err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res.Status, err)
	}
	if len(u.Keys) != 1 || u.Keys[0].Key != "tester" || u.Total.Calls != 4 || len(u.Keys[0].Models) != 2 {
		t.Fatalf("usage = %+v, want 4 calls of tester to 2 models", u)
	}
	m := u.Keys[0].Models
	if m[0].Model != "other" || m[0].Total.Calls != 1 || m[1].Total.Calls != 3 || m[1].Total.Completion == 0 || len(m[1].Days) != 1 || m[1].Days[0].UsageAmount != m[1].Total {
		t.Errorf("models = %+v, want 1 call of other and 3 of the second, on one day", m)
	}
	if got := p.Metric("penstock_tokens_total", `kind="prompt"`); uint64(got) != u.Total.Prompt {
		t.Errorf("the metrics say %v prompt tokens, the account %d: %s", got, u.Total.Prompt, fmt.Sprint(u))
	}
}

// TestSessionColumn checks that, if log.sessions is set, access lines contain a hash of the session
// name, but never the name. The client may send the name in a header or in the body.
func TestSessionColumn(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "log: { sessions: true }"})
	const name = "CANARY-session-1"
	messages := `"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]`
	for i, c := range []struct{ path, body, header string }{
		{chatPath, p.ChatRequest(""), "X-Session-Id: " + name},
		{chatPath, p.ChatRequest(`"prompt_cache_key":"` + name + `"`), ""},
		{"/v1/responses", `{"model":"sim","input":"Hi","store":false,"prompt_cache_key":"` + name + `"}`, ""},
		{"/v1/messages", `{"model":"sim",` + messages + `,"metadata":{"user_id":"user_1_account__session_` + name + `"}}`, ""},
		{chatPath, p.ChatRequest(`"prompt_cache_key":5`), ""},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		p.Post(c.path, c.body, headers...).WantStatus(200)
		rig.WaitFor(t, rig.WaitTimeout, "the line is written", func() bool { return len(p.AccessLines()) == i+1 })
	}
	found := regexp.MustCompile(`"session":"([0-9a-f]{16})"`).FindAllStringSubmatch(p.Log.String(), -1)
	if len(found) != 4 || strings.Contains(p.Log.String(), "CANARY") {
		t.Fatalf("%d lines have a session", len(found))
	}
	for _, f := range found {
		if f[1] != found[0][1] {
			t.Errorf("one session has the hashes %s and %s", found[0][1], f[1])
		}
	}
}

// TestProxyRequestID checks that only a listed proxy may set a request id, which must consist of
// plain characters. By default, no proxy may set one.
func TestProxyRequestID(t *testing.T) {
	t.Parallel()
	for _, trusts := range []bool{true, false} {
		p := start(t, rig.Setup{Top: fmt.Sprintf("listen_trusted: [127.0.0.2]\ntrust_request_id: %t", trusts)})
		const plain, header = "01HZX9:edge-7/a_b.c+d=e@f", "PROXY TCP4 198.51.100.7 127.0.0.1 5000 4000\r\n"
		ask := func(from, header, given string) *rig.Reply {
			t.Helper()
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			c, err := d.Dial("tcp", p.Addr)
			if err != nil {
				t.Skipf("no second address of loopback: %v", err)
			}
			t.Cleanup(func() { c.Close() })
			raw := rig.NewRawConn(t, c)
			_, _ = io.WriteString(c, header+strings.Replace(p.RequestBytes(chatPath, p.ChatRequest("")), "\r\n", "\r\n"+given, 1))
			r, err := raw.TryReadReply("POST")
			if err != nil || r.Status != 200 {
				t.Fatalf("%s %q: %v, %+v", from, given, err, r)
			}
			return r
		}
		for _, c := range []struct {
			from, header, given string
			taken               bool
		}{
			{"127.0.0.2", header, "X-Request-Id: " + plain + "\r\n", trusts},
			{"127.0.0.2", header, "", false},
			{"127.0.0.2", header, "X-Request-Id: a b\r\n", false},
			{"127.0.0.2", header, "X-Request-Id: a\"b\r\n", false},
			{"127.0.0.2", header, "X-Request-Id:\r\n", false},
			{"127.0.0.2", header, "X-Request-Id: a\r\nX-Request-Id: b\r\n", false},
			{"127.0.0.2", header, "X-Request-Id: " + strings.Repeat("a", 129) + "\r\n", false},
			{"127.0.0.1", "", "X-Request-Id: " + plain + "\r\n", false},
		} {
			r := ask(c.from, c.header, c.given)
			own, shown := r.Header.Get("Request-Id"), r.Header.Get("X-Request-Id")
			if !strings.HasPrefix(own, "req_") || c.taken != (shown == plain) || !c.taken && shown != own {
				t.Errorf("%t %+v: the answer has the ids %q and %q", trusts, c, own, shown)
			}
		}
		p.End()
		if n := strings.Count(p.Log.String(), `"proxy_request_id":"`+plain+`"`); trusts != (n == 1) || strings.Count(p.Log.String(), "proxy_request_id") != n {
			t.Errorf("%t: the log has the id %d times", trusts, n)
		}
	}
}

// TestProxyProtocol checks that a listed proxy must send its client's address, and that no other
// peer may send an address.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "log: { client: true }\nlisten_trusted: [127.0.0.2]"})
	ask := func(from, header string) (*rig.Reply, error) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.Dial("tcp", p.Addr)
		if err != nil {
			t.Skipf("no second address of loopback: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		raw := rig.NewRawConn(t, c)
		_, _ = io.WriteString(c, header+p.RequestBytes(chatPath, p.ChatRequest("")))
		return raw.TryReadReply("POST")
	}
	const header = "PROXY TCP4 198.51.100.7 127.0.0.1 5000 4000\r\n"
	for _, c := range []struct {
		from, header string
		client       string // expected in the log; if empty, the connection is closed
	}{
		{"127.0.0.2", header, "198.51.100.7"},
		{"127.0.0.2", "", ""},
		{"127.0.0.1", "", "127.0.0.1"},
		{"127.0.0.1", header, ""},
	} {
		r, err := ask(c.from, c.header)
		if c.client == "" {
			if err == nil {
				t.Errorf("%+v: answered with %d", c, r.Status)
			}
			continue
		}
		if err != nil || r.Status != 200 {
			t.Errorf("%+v: %v, %+v; want 200", c, err, r)
			continue
		}
		line := `"client":"` + c.client + `"`
		rig.WaitFor(t, rig.WaitTimeout, "the line is written", func() bool { return strings.Contains(p.Log.String(), line) })
	}
	for _, reason := range []string{"missing", "unlisted"} {
		if n := p.Metric("penstock_proxy_headers_refused_total", `reason="`+reason+`"`); n != 1 {
			t.Errorf("%v connections were closed: %s", n, reason)
		}
	}
}
