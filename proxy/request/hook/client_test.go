package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"penstock/config"
	"penstock/upstreams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type memoryBudget struct {
	most       int64
	held, peak atomic.Int64
}

func (b *memoryBudget) Reserve(n int64) bool {
	held := b.held.Add(n)
	if held > b.most {
		b.held.Add(-n)
		return false
	}
	b.peak.Store(max(b.peak.Load(), held))
	return true
}

func (b *memoryBudget) ReleaseGarbage(n int64) { b.held.Add(-n) }

// rig consists of a hook whose answers are defined by the test, and a client for the hook.
type rig struct {
	client  *Client
	metrics *metrics.Set
	hook    config.Hook
	call    Call
	memory  *memoryBudget
	server  *httptest.Server
}

func newRig(t *testing.T, answer http.HandlerFunc) *rig {
	set := metrics.NewSet()
	r := &rig{client: NewClient(set, nil), metrics: set, memory: &memoryBudget{most: 1 << 20}}
	r.server = httptest.NewServer(answer)
	t.Cleanup(func() {
		r.client.Close()
		r.server.Close()
		if n := r.memory.held.Load(); n != 0 {
			t.Errorf("%d bytes stay reserved", n)
		}
	})
	r.hook.SetDefaults()
	r.hook.Name, r.hook.Before = "guard", r.server.URL+"/decide"
	r.hook.Timeout = config.Duration(time.Minute)
	r.call = Call{Canceled: make(chan struct{}), MaxBody: 64 << 10, Memory: r.memory}
	return r
}

func (r *rig) ask(q *Question) (Decision, error) {
	var d Decision
	err := r.client.Ask(&r.hook, q, &r.call, func(got *Decision) error {
		d = *got
		d.Body = bytes.Clone(got.Body)
		return nil
	})
	return d, err
}

// wantCause checks that an error blames the hook with the given cause, and that the error contains
// no text from an answer.
func wantCause(t *testing.T, err error, cause upstreams.Cause) {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) || f.Cause != cause || strings.Contains(err.Error(), "CANARY") {
		t.Errorf("%v, want %s", err, cause)
	}
}

func (r *rig) wantCount(t *testing.T, result string, want uint64) {
	t.Helper()
	name := `penstock_hook_decisions_total{hook="guard",result="` + result + `"}`
	if got := r.metrics.GetOrCreateCounter(name).Get(); got != want {
		t.Errorf("%s %d, want %d", result, got, want)
	}
}

func TestAsk(t *testing.T) {
	var got map[string]any
	var head http.Header
	r := newRig(t, func(w http.ResponseWriter, asked *http.Request) {
		head = asked.Header
		if err := json.NewDecoder(asked.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		io.WriteString(w, `{"action":"allow"}`)
	})
	r.hook.Token = "secret"
	q := Question{
		RequestID: "req_1", Endpoint: "/v1/messages", Model: `a "b"`, Key: "team-a", PromptTokens: 12, BodyBytes: 9,
		Stream: true, Body: []byte(`{"n": [1]}`),
	}
	if d, err := r.ask(&q); err != nil || d.Action != ActionAllow {
		t.Fatalf("ask = %+v, %v, want allow", d, err)
	}
	want := `{"body":{"n":[1]},"body_bytes":9,"endpoint":"/v1/messages","hook":"guard","key":"team-a","model":"a \"b\"",` +
		`"prompt_tokens":12,"request_id":"req_1","stream":true,"version":1}`
	if text, _ := json.Marshal(got); string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	if head.Get("Authorization") != "Bearer secret" || head.Get("Content-Type") != "application/json" {
		t.Errorf("the hook got the head %v, want the token and a JSON body", head)
	}
	got = nil
	q.Body = nil
	if _, err := r.ask(&q); err != nil || got["body"] != nil || len(got) != 9 {
		t.Errorf("ask: error %v, the hook got %v, want 9 members without body", err, got)
	}
	r.wantCount(t, "allow", 2)
	if s := r.metrics.GetOrCreateFloatCounter(`penstock_hook_seconds_total{hook="guard"}`).Get(); s <= 0 {
		t.Errorf("got %v seconds, want more than 0", s)
	}
}

func TestAskFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		cause  upstreams.Cause
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", 500) }, upstreams.CauseHookStatus},
		{"204", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, upstreams.CauseHookStatus},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}, upstreams.CauseHookStatus},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "CANARY") }, upstreams.CauseHookAnswer},
		{"empty", func(http.ResponseWriter, *http.Request) {}, upstreams.CauseHookAnswer},
		{"long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "104857600")
			io.WriteString(w, "{")
		}, upstreams.CauseHookAnswer},
		{"long without a length", func(w http.ResponseWriter, _ *http.Request) {
			piece := bytes.Repeat([]byte(" "), 32<<10)
			for range 3200 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}, upstreams.CauseHookAnswer},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "18")
			io.WriteString(w, `{"action":`)
		}, upstreams.CauseHookAnswer},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, upstreams.CauseHookUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, c.answer)
			_, err := r.ask(&Question{})
			wantCause(t, err, c.cause)
			r.wantCount(t, "error", 1)
			if n := r.memory.peak.Load(); n > 3*(r.call.MaxBody+maxWrapperBytes) {
				t.Errorf("%d bytes were held", n)
			}
		})
	}
}

func TestAskUnreachable(t *testing.T) {
	r := newRig(t, nil)
	r.server.Close()
	_, err := r.ask(&Question{})
	wantCause(t, err, upstreams.CauseHookUnreachable)
}

// TestAskEnds checks that waiting for a hook ends at the hook's timeout, at the call's deadline, or
// when the client disconnects. The hook sends half an answer and then stops.
func TestAskEnds(t *testing.T) {
	asked, end := make(chan struct{}, 8), make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"action":`)
		_ = http.NewResponseController(w).Flush()
		asked <- struct{}{}
		<-end
	})
	defer close(end)
	wait := func() { // waits until the hook has received the question
		t.Helper()
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Fatal("the hook is not asked")
		}
	}
	const limit = time.Second
	r.hook.Timeout = config.Duration(limit)
	_, err := r.ask(&Question{})
	wantCause(t, err, upstreams.CauseHookTimeout)
	r.wantCount(t, "timeout", 1)
	wait()

	r.hook.Timeout = config.Duration(time.Minute)
	r.call.Deadline = time.Now().Add(limit)
	_, err = r.ask(&Question{})
	wantCause(t, err, upstreams.CauseHookTimeout)
	r.wantCount(t, "timeout", 2)
	wait()

	r.call.Deadline = time.Time{}
	left := make(chan struct{})
	r.call.Canceled = left
	go func() {
		<-asked
		close(left)
	}()
	if _, err = r.ask(&Question{}); !errors.Is(err, ErrCallEnded) {
		t.Errorf("ask = %v, want ErrCallEnded", err)
	}
	r.wantCount(t, "timeout", 2)
	r.wantCount(t, "error", 0)
}

func TestAskMemory(t *testing.T) {
	body := strings.Repeat("x", 40<<10)
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"action":"rewrite","body":{"n":"`+body+`"}}`)
	})
	d, err := r.ask(&Question{})
	if err != nil || string(d.Body) != `{"n":"`+body+`"}` || r.memory.peak.Load() < 40<<10 {
		t.Errorf("%d bytes, %v; %d held", len(d.Body), err, r.memory.peak.Load())
	}
	r.memory.most = 16 << 10
	if _, err = r.ask(&Question{}); !errors.Is(err, ErrNoMemory) {
		t.Errorf("ask = %v, want ErrNoMemory", err)
	}
}

// TestAskLetsBodyGo checks that nothing reads the body after Ask has returned, even if the hook
// answers without reading the body. At that time, another call may be using the body's memory. The
// race detector would report such a read.
func TestAskLetsBodyGo(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"action":"allow"}`) })
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			body := bytes.Repeat([]byte("a"), 1<<20)
			for range 5 {
				// This may fail if the connection was closed while the body was sent.
				_, _ = r.ask(&Question{Body: body})
				for i := range body {
					body[i]++
				}
			}
		})
	}
	all.Wait()
}

// TestAskAgain checks that Ask opens a new connection if the hook closed the old one while it was
// idle.
func TestAskAgain(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"action":"allow"}`) })
	for range 20 {
		if _, err := r.ask(&Question{Body: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		r.server.CloseClientConnections()
	}
}
