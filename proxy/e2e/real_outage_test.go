//go:build unix

package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// realSent is one request of a realLoad.
type realSent struct {
	begun, ended time.Time
	upstream     string // the last upstream, as reported by the edge
	failure      string // empty if the answer was complete
}

// realLoad is a group of clients. It records each request.
type realLoad struct {
	p      *penstock
	mu     sync.Mutex
	sent   []realSent
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// startLoad sends requests from n clients in closed loops, alternately streamed and unstreamed.
func (p *penstock) startLoad(n int) *realLoad {
	ctx, cancel := context.WithCancel(context.Background())
	l := &realLoad{p: p, cancel: cancel}
	for client := range n {
		l.wg.Go(func() {
			for turn := client; ctx.Err() == nil; turn++ {
				s := l.send(turn%2 == 0)
				l.mu.Lock()
				l.sent = append(l.sent, s)
				l.mu.Unlock()
			}
		})
	}
	p.T.Cleanup(func() { l.stop() })
	return l
}

func (l *realLoad) send(streamed bool) (s realSent) {
	s.begun = time.Now()
	defer func() { s.ended = time.Now() }()
	res, err := l.p.TryOpenResponse(context.Background(), "POST", chatPath, rig.ChatBody("talk", fmt.Sprintf(`"max_tokens":40,"ignore_eos":true,"stream":%t`, streamed)))
	if err != nil {
		s.failure = err.Error()
		return s
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	s.upstream = res.Header.Get("X-Penstock-Upstream")
	switch text := string(body); {
	case err != nil:
		s.failure = err.Error()
	case res.StatusCode != 200:
		s.failure = fmt.Sprintf("status %d: %s", res.StatusCode, text)
	case streamed && (!strings.HasSuffix(text, "data: [DONE]\n\n") || strings.Contains(text, `"error"`)):
		s.failure = "a stream that was cut: " + text[max(0, len(text)-200):]
	}
	return s
}

// stop ends the load and returns all requests.
func (l *realLoad) stop() []realSent {
	l.cancel()
	l.wg.Wait()
	return l.since(time.Time{})
}

// since returns the finished requests that started at or after the given time.
func (l *realLoad) since(begun time.Time) []realSent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.sent), func(s realSent) bool { return s.begun.Before(begun) })
}

// waitServed waits until an upstream has answered a request that started after the given time, and
// returns how long this took.
func (l *realLoad) waitServed(limit time.Duration, upstream string, after time.Time) time.Duration {
	l.p.T.Helper()
	rig.WaitFor(l.p.T, limit, upstream+" serves", func() bool {
		time.Sleep(5 * time.Millisecond)
		return slices.ContainsFunc(l.since(after), func(s realSent) bool { return s.upstream == upstream && s.failure == "" })
	})
	return time.Since(after)
}

// signal sends a signal to the engine and its script.
func (e *realEngine) signal(s syscall.Signal) { _ = syscall.Kill(-e.cmd.Process.Pid, s) }

// terminate stops the engine as a service manager does. It sends SIGTERM repeatedly, because
// llama.cpp waits for its streams after the first signal. After a while, it kills the engine.
func (e *realEngine) terminate(patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		e.signal(syscall.SIGTERM)
		select {
		case <-e.done:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
	e.kill()
}

// TestRealOutages kills, freezes and restarts one of two engines under load. Only requests that
// were sent to this engine before it was marked down may fail. Soon after the engine has recovered,
// it must receive its share of the traffic again.
func TestRealOutages(t *testing.T) {
	const slots = 4
	a, b := startLlama(t, realPort(t), "markov"), startLlama(t, realPort(t), "markov")
	p := startReal(t, 2, fmt.Sprintf(`log: { debug_headers: true }
upstreams: [{ name: a, url: %q }, { name: b, url: %q }]
models: [{ id: talk, queue: { depth: 64, wait: 30s }, timeouts: { first_event: 3s, answer: 5s, idle: 3s }, deployments: [{ upstream: a, served: markov }, { upstream: b, served: markov }] }]`, a.url, b.url))
	load := p.startLoad(6)
	calm := func(from time.Time) {
		t.Helper()
		time.Sleep(2 * time.Second)
		for _, s := range load.since(from) {
			if s.failure != "" {
				t.Errorf("failed with both engines well: %+v", s)
			}
		}
	}
	// outage runs one outage. fail makes the engine fail, and mend restores it.
	outage := func(what string, fail, mend func()) {
		t.Helper()
		failed := time.Now()
		fail()
		rig.WaitFor(t, realPatience, "the engine is marked down", func() bool { return p.realUp() == 1 })
		down := time.Now()
		time.Sleep(2 * time.Second)
		lost := 0
		for _, s := range load.since(failed.Add(-20 * time.Second)) {
			if s.failure == "" || s.ended.Before(failed) {
				continue
			}
			if lost++; s.begun.After(down) || s.upstream != "a" {
				t.Errorf("%s: failed although it was begun %v after the engine was marked down, on %s: %s", what, s.begun.Sub(down), s.upstream, s.failure)
			}
		}
		mend()
		mended := time.Now()
		back := load.waitServed(realPatience, "a", mended)
		served := len(load.since(failed))
		t.Logf("%s: marked down after %v, %d requests lost, back %v after the engine was ready; %d requests meanwhile", what, down.Sub(failed).Round(time.Millisecond), lost, back.Round(time.Millisecond), served)
		if back > 8*time.Second {
			t.Errorf("%s: traffic came back after %v", what, back)
		}
		// Each of the engine's slots can lose two requests: one when the engine fails, and another
		// before the engine is marked down.
		if lost > 2*slots {
			t.Errorf("%s: %d requests were lost", what, lost)
		}
		rig.WaitFor(t, realPatience, "both are up", func() bool { return p.realUp() == 2 })
		calm(time.Now())
	}
	for _, up := range []string{"a", "b"} {
		load.waitServed(realPatience, up, time.Now())
	}
	calm(time.Now())
	outage("killed", a.kill, func() { a = startLlama(t, a.port, "markov") })
	outage("frozen", func() { a.signal(syscall.SIGSTOP) }, func() { a.signal(syscall.SIGCONT) })
	outage("restarted", func() { a.terminate(2 * time.Second) }, func() { a = startLlama(t, a.port, "markov") })
	all := load.stop()
	count := map[string]int{}
	for _, s := range all {
		count[s.upstream]++
	}
	t.Logf("%d requests: %v", len(all), count)
}
