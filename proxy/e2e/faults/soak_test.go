//go:build soak

package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

var soakFor = flag.Duration("soak", 30*time.Minute, "how long TestSoak loads the program")

// TestSoak loads the program with all kinds of work for a long time: all dialects and endpoints,
// clients that disconnect in every phase, and engines that fail in every way. It reloads every
// second, and every fourth reload uses an invalid file. At the end, no slot, goroutine or
// descriptor may have leaked, and memory must not have grown.
func TestSoak(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e := start(t, rig.Setup{
		Engines:  []sim.Options{{Slots: 16}, {Slots: 16}, {Slots: 16}},
		Upstream: "concurrency: { text: 12, vision: 4, audio: 6 }", Model: "queue: { depth: 8, wait: 300ms }, input_modalities: [text, image]",
		Timeouts: "first_event: 2s, answer: 4s, idle: 2s, client_body: 1s, client_header: 1s, write: 2s",
		Stream:   "keepalive: 500ms, commit_after: 1s",
		Models: ears + `
- { id: voice, kind: audio-speech, deployments: [{ upstream: up-1, served: sim }] }
- { id: vectors, kind: embedding, deployments: [{ upstream: up-2, served: sim }] }`,
		Stderr: log,
	})
	s := &soak{e: e, done: make(chan struct{}), results: map[string]int{}}
	for _, w := range rig.TextRequestTypes { // triggers one-time allocations before counting
		e.SendRequest(w, "").VisibleText(w)
	}
	e.Client.CloseIdleConnections()
	before := s.idleResources()

	var work sync.WaitGroup
	for range 24 {
		work.Go(s.client)
	}
	for _, engine := range e.Engines {
		work.Go(func() { s.spoil(engine) })
	}
	s.operate(*soakFor)
	close(s.done)
	work.Wait()
	for _, engine := range e.Engines {
		engine.SetFault()
	}
	e.Write("penstock.yaml", e.Text)
	if status, body := e.Reload(); status != 200 {
		t.Errorf("the last reload: %d %s", status, body)
	}
	e.Client.CloseIdleConnections()

	for _, w := range rig.TextRequestTypes { // every endpoint must still work
		rig.WaitFor(t, rig.WaitTimeout, "the engines are well again", func() bool { return e.SendRequest(w, "").Status == 200 })
	}
	e.Client.CloseIdleConnections()
	e.WaitIdle()
	after := s.idleResources()
	for deadline := time.Now().Add(2 * time.Minute); !after.isSimilar(before) && time.Now().Before(deadline); after = s.idleResources() {
		time.Sleep(time.Second)
	}
	t.Logf("%d requests: %s", s.count(), s.summary())
	t.Logf("goroutines %d and %d, descriptors %d and %d, memory at the quarters %s MiB, %d reloads",
		before.goroutines, after.goroutines, before.descriptors, after.descriptors, s.quarters(), s.reloads)
	if !after.isSimilar(before) {
		t.Errorf("something is left: %+v before, %+v after\n%s", before, after, e.Goroutines())
	}
	if q := s.quarter; len(q[3]) > 0 {
		if second, last := median(q[1]), median(q[3]); last > second+second/4+16<<20 {
			t.Errorf("memory grew from %d to %d MiB", second>>20, last>>20)
		}
	}
	for status := range s.results {
		if strings.HasSuffix(status, " 500") {
			t.Errorf("%s came %d times", status, s.results[status])
		}
	}
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	rig.WantNoLeak(t, "the log", string(text), e.Key)
}

// soak is the state that the clients, engines and the operator in TestSoak share.
type soak struct {
	e       *edge
	done    chan struct{}
	mu      sync.Mutex
	results map[string]int // counts of requests and their outcomes
	quarter [4][]int64     // memory samples, by quarter of the test
	reloads int
}

// resourceCounts contains the numbers of resources that an idle program uses.
type resourceCounts struct{ goroutines, descriptors int }

// isSimilar reports whether b is at most slightly higher than other. A probe, a timer or a keep-alive
// connection to an engine may cause such a difference.
func (b resourceCounts) isSimilar(other resourceCounts) bool {
	return b.goroutines <= other.goroutines+6 && b.descriptors <= other.descriptors+6
}

func (s *soak) idleResources() resourceCounts {
	return resourceCounts{int(s.e.Metric("go_goroutines")), s.e.DescriptorCount()}
}

// operate reloads every second and samples memory until length has passed.
func (s *soak) operate(length time.Duration) {
	begun := time.Now()
	changes := []func(string) string{
		func(text string) string { return text },
		func(text string) string { return strings.ReplaceAll(text, "text: 12", "text: 5") },
		func(text string) string { return strings.Replace(text, ", { upstream: up-2 }]", "]", 1) },
	}
	for i := 0; time.Since(begun) < length; i++ {
		text, want := changes[i%3](s.e.Text), 200
		if i%4 == 3 {
			text, want = text+"\nnonsense: true\n", 422
		}
		s.e.Write("penstock.yaml", text)
		status, body := s.e.Reload()
		// The engines may be down at the moment, and a reload that leaves a model with only dead
		// engines is refused.
		if status != want && !(i%3 == 2 && status == 422 && strings.Contains(body, "left without a slot")) {
			s.e.T.Errorf("reload %d = %d %s, want %d", i, status, body, want)
		}
		s.reloads++
		quarter := min(3, int(4*time.Since(begun)/length))
		s.quarter[quarter] = append(s.quarter[quarter], s.e.MemoryBytes("VmRSS"))
		time.Sleep(time.Second)
	}
}

// spoil injects one fault after another into an engine, with healthy periods in between.
func (s *soak) spoil(engine *sim.Engine) {
	faults := []sim.Fault{
		{Spec: "refuse", Path: "*"},
		{Spec: "reset-before", Share: .5},
		{Spec: "eof-before", Share: .5},
		{Spec: "status=503;retry-after=1", Share: .5},
		{Spec: "status=500", Share: .3},
		{Spec: "status=429;retry-after=1", Share: .5},
		{Spec: "cut-after=2", Share: .5},
		{Spec: "reset-after=3", Share: .5},
		{Spec: "stall-after=2", Share: .3},
		{Spec: "blackhole", Share: .2},
		{Spec: "garbage-head", Share: .3},
		{Spec: "keepalive-close"},
		{Spec: "keepalive-close;when=next-reset"},
		{Spec: "bad-chunk", Share: .3},
		{Spec: "error-in-stream", Share: .5},
		{Spec: "surplus", Share: .3},
		{Spec: "invalid-json", Share: .3},
		{Spec: "slow-header;gap=5ms", Share: .2},
		{Spec: "split"},
		{Spec: "no-done"},
		{Spec: "early-413", Share: .1},
	}
	for s.wait(time.Duration(rand.IntN(3000)) * time.Millisecond) {
		engine.SetFault(faults[rand.IntN(len(faults))])
		well := !s.wait(time.Duration(200+rand.IntN(2000)) * time.Millisecond)
		engine.SetFault()
		if well {
			return
		}
	}
}

// wait waits for d. It returns false once the soak is over.
func (s *soak) wait(d time.Duration) bool {
	select {
	case <-s.done:
		return false
	case <-time.After(d):
		return true
	}
}

func (s *soak) client() {
	for s.wait(time.Duration(rand.IntN(20)) * time.Millisecond) {
		w := rig.TextRequestTypes[rand.IntN(len(rig.TextRequestTypes))]
		control := fmt.Sprintf(`"tokens":%d,"delay_ms":%d`, 1+rand.IntN(40), rand.IntN(4))
		switch n := rand.IntN(100); {
		case n < 60:
			s.ask(w.String(), 0, w.Path, w.RequestBody("sim", rig.Prompt, control))
		case n < 72:
			s.ask(w.String()+" leaving", time.Duration(rand.IntN(150))*time.Millisecond, w.Path, w.RequestBody("sim", rig.Prompt, `"tokens":200,"delay_ms":20`))
		case n < 75:
			s.sendPartial(w)
		case n < 82:
			s.upload()
		case n < 85:
			s.ask("speech", 0, "/v1/audio/speech", `{"model":"voice","input":"`+rig.Prompt+`"}`)
		case n < 88:
			s.ask("embeddings", 0, "/v1/embeddings", `{"model":"vectors","input":"`+rig.Prompt+`"}`)
		case n < 91:
			s.ask("vision", 0, rig.Chat.Path, rig.VisionBody(rig.PictureDataURL("png"), ""))
		case n < 93:
			s.ask("count", 0, rig.Messages.Path+"/count_tokens", rig.Messages.RequestBody("sim", rig.Prompt, ""))
		case n < 95:
			s.ask("bad key", 0, w.Path, w.RequestBody("sim", rig.Prompt, ""), "Authorization: Bearer no")
		case n < 97:
			s.ask("bad body", 0, w.Path, w.RequestBody("sim", rig.Prompt, "")[1:])
		default:
			s.ask("bad model", 0, w.Path, w.RequestBody("other", rig.Prompt, ""))
		}
	}
}

// ask sends a request. It reads the answer or, if leave is positive, disconnects after that
// duration.
func (s *soak) ask(what string, leave time.Duration, path, body string, header ...string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if leave > 0 {
		timer := time.AfterFunc(leave, cancel)
		defer timer.Stop()
	}
	res, err := s.e.TryOpenResponse(ctx, "POST", path, body, header...)
	if err != nil {
		s.countOutcome(what, err)
		return
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err != nil {
		s.countOutcome(what, err)
		return
	}
	s.countOutcome(what+" "+strconv.Itoa(res.StatusCode), nil)
}

// sendPartial sends part of a request, and then disconnects or waits for the response.
func (s *soak) sendPartial(w rig.RequestType) {
	c, err := net.Dial("tcp", s.e.Addr)
	if err != nil {
		s.countOutcome("half", err)
		return
	}
	defer c.Close()
	text := s.e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, ""))
	_, _ = io.WriteString(c, text[:rand.IntN(len(text))])
	if rand.IntN(3) == 0 {
		_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
		_, _ = io.Copy(io.Discard, c)
	}
	s.countOutcome("half", nil)
}

// upload sends a form. Every third form is truncated.
func (s *soak) upload() {
	c, err := net.Dial("tcp", s.e.Addr)
	if err != nil {
		s.countOutcome("upload", err)
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	form := formStart("ears") + strings.Repeat("x", rand.IntN(700<<10)) + "\r\n--B--\r\n"
	head := s.e.RequestHead("POST", transcriptions, "Content-Type: multipart/form-data; boundary=B", "Connection: close", "Content-Length: "+strconv.Itoa(len(form)))
	if rand.IntN(3) == 0 {
		_, _ = io.WriteString(c, head+form[:rand.IntN(len(form))])
		s.countOutcome("upload cut", nil)
		return
	}
	_, _ = io.WriteString(c, head+form) // an answer may arrive before the whole form has been sent
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, status); err != nil {
		s.countOutcome("upload", err)
		return
	}
	s.countOutcome("upload "+string(status[9:]), nil)
	_, _ = io.Copy(io.Discard, c)
}

func (s *soak) countOutcome(what string, err error) {
	switch {
	case errors.Is(err, context.Canceled):
		what += " gone"
	case err != nil:
		what += " broken"
	}
	s.mu.Lock()
	s.results[what]++
	s.mu.Unlock()
}

func (s *soak) count() (n int) {
	for _, c := range s.results {
		n += c
	}
	return n
}

func (s *soak) summary() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(s.results)) {
		fmt.Fprintf(&b, "%s %d; ", what, s.results[what])
	}
	return b.String()
}

func (s *soak) quarters() string {
	var out []string
	for _, q := range s.quarter {
		out = append(out, strconv.FormatInt(median(q)>>20, 10))
	}
	return strings.Join(out, ", ")
}

func median(of []int64) int64 {
	if len(of) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(of))[len(of)/2]
}
