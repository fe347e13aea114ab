package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// traffic simulates clients while an operator works on the edge: requests on keep-alive
// connections, requests on new connections, and long streams. It does not use an HTTP library,
// because a library would repeat a request that was lost on a keep-alive connection.
type traffic struct {
	t    testing.TB
	addr func() string // returns the current address of the edge
	key  string
	// mayRefuse is true if connections may be refused, for example after the edge has closed its
	// port.
	mayRefuse atomic.Bool

	stop    chan struct{}
	all     sync.WaitGroup
	served  atomic.Int64
	streams atomic.Int64 // number of completed streams
	held    atomic.Int64 // number of open streams
	refused atomic.Int64
	crossed atomic.Int64 // number of requests that crossed the closing of a connection; see crossesClose
	mu      sync.Mutex
	lost    []string
	latency []time.Duration // latencies of plain requests
}

type mix struct{ kept, fresh, streams int }

var defaultMix = mix{kept: 6, fresh: 4, streams: 6}

// startTraffic starts traffic that runs until end is called or the test ends.
func startTraffic(e *edge, m mix) *traffic {
	tr := &traffic{t: e.T, addr: func() string { return e.Addr }, key: e.Key, stop: make(chan struct{})}
	for range m.kept {
		tr.client(true, rig.Chat, `"tokens":3`)
	}
	for range m.fresh {
		tr.client(false, rig.Messages, `"tokens":3`)
	}
	for i := range m.streams {
		tr.client(i%2 == 0, []rig.RequestType{rig.ChatStream, rig.MessagesStream, rig.ResponsesStream}[i%3], `"tokens":60,"delay_ms":20`)
	}
	e.T.Cleanup(func() { tr.end() })
	rig.WaitFor(e.T, rig.WaitTimeout, "the traffic runs", func() bool {
		return tr.served.Load() >= 20 && tr.held.Load() >= int64(m.streams)
	})
	return tr
}

// end stops the traffic and waits until running requests have finished.
func (tr *traffic) end() {
	select {
	case <-tr.stop:
	default:
		close(tr.stop)
	}
	tr.all.Wait()
}

// wantNothingLost stops the traffic and checks that no request was lost.
func (tr *traffic) wantNothingLost() {
	tr.t.Helper()
	tr.end()
	if len(tr.lost) > 0 {
		tr.t.Errorf("%d of %d requests were lost, for example:\n%s", len(tr.lost), tr.served.Load()+int64(len(tr.lost)), strings.Join(tr.lost[:min(5, len(tr.lost))], "\n"))
	}
	if tr.served.Load() == 0 || tr.streams.Load() == 0 {
		tr.t.Error("the traffic proves nothing")
	}
	tr.t.Logf("%d requests and %d held streams were served, %d connections refused, %d requests lost, %d crossed the closing of an idle connection",
		tr.served.Load(), tr.streams.Load(), tr.refused.Load(), len(tr.lost), tr.crossed.Load())
}

// client sends requests repeatedly. It sends them all on one connection or, if keep is false, each
// on a new connection.
func (tr *traffic) client(keep bool, w rig.RequestType, control string) {
	body := w.RequestBody("sim", rig.Prompt, control)
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: edge\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		w.Path, tr.key, len(body), body)
	tr.all.Go(func() {
		var c net.Conn
		var in *bufio.Reader
		var idle time.Time // the connection became idle then or later; zero if it is new
		defer func() {
			if c != nil {
				c.Close()
			}
		}()
		for n := 0; ; n++ {
			select {
			case <-tr.stop:
				return
			default:
			}
			if c == nil {
				var err error
				if c, err = net.DialTimeout("tcp", tr.addr(), 10*time.Second); err != nil {
					if c = nil; !tr.mayRefuse.Load() {
						tr.lose(w, n, fmt.Errorf("not let in: %w", err))
					}
					tr.refused.Add(1)
					time.Sleep(10 * time.Millisecond)
					continue
				}
				in, idle = bufio.NewReader(c), time.Time{}
			}
			_ = c.SetDeadline(time.Now().Add(30 * time.Second))
			begun := time.Now()
			_, err := io.WriteString(c, request)
			sent := time.Now()
			var last bool
			if err == nil {
				last, err = tr.answer(in, w)
			}
			if !idle.IsZero() && crossesClose(err, sent.Sub(idle)) {
				tr.crossed.Add(1)
			} else if err != nil {
				tr.lose(w, n, err)
			} else if tr.served.Add(1); !w.Stream {
				tr.mu.Lock()
				tr.latency = append(tr.latency, time.Since(begun))
				tr.mu.Unlock()
			}
			if idle = begun; w.Stream {
				idle = time.Now()
			}
			if err != nil || last || !keep {
				c.Close()
				c = nil
			}
			if !w.Stream {
				time.Sleep(time.Duration(n%4) * time.Millisecond)
			}
		}
	})
}

// answer reads one answer and checks that it is complete. last is true if the connection cannot be
// used after the answer.
func (tr *traffic) answer(in *bufio.Reader, w rig.RequestType) (last bool, err error) {
	if _, err := in.Peek(1); err != nil {
		return true, unansweredError{err}
	}
	res, err := http.ReadResponse(in, &http.Request{Method: "POST"})
	if err != nil {
		return true, err
	}
	if w.Stream && res.StatusCode == 200 {
		tr.held.Add(1)
		defer tr.held.Add(-1)
	}
	b, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return true, fmt.Errorf("cut after %d bytes: %w", len(b), err)
	case res.StatusCode != 200:
		return res.Close, fmt.Errorf("status %d: %.300s", res.StatusCode, b)
	case !w.Stream:
		if !json.Valid(b) {
			return res.Close, fmt.Errorf("no JSON: %.300s", b)
		}
		return res.Close, nil
	}
	end := map[string]string{"chat": "data: [DONE]", "messages": "event: message_stop", "responses": "event: response.completed"}[w.Dialect]
	if !strings.Contains(string(b), end) {
		return res.Close, fmt.Errorf("no %q in a stream that ends with %q", end, b[max(0, len(b)-300):])
	}
	tr.streams.Add(1)
	return res.Close, nil
}

// unansweredError is the error of a request that failed before the first byte of an answer arrived.
type unansweredError struct{ error }

// idleGrace is how long an edge that shuts down leaves a connection open for the client's next
// request.
const idleGrace = time.Second

// crossesClose reports whether a request failed only because the edge closed an idle connection
// while the request was on its way. This happens if a busy machine delays a client for longer than
// idleGrace. HTTP clients send such a request again. idle is the longest time that the connection
// can have been idle before the request was sent.
func crossesClose(err error, idle time.Duration) bool {
	var unanswered unansweredError
	return errors.As(err, &unanswered) && idle >= idleGrace &&
		(errors.Is(unanswered.error, io.EOF) || errors.Is(unanswered.error, syscall.ECONNRESET))
}

func TestCrossesClose(t *testing.T) {
	for _, c := range []struct {
		err  error
		idle time.Duration
		want bool
	}{
		{unansweredError{io.EOF}, idleGrace, true},
		{unansweredError{syscall.ECONNRESET}, idleGrace, true},
		{unansweredError{io.EOF}, idleGrace - 1, false},             // the client was fast enough
		{unansweredError{os.ErrDeadlineExceeded}, idleGrace, false}, // nothing was closed
		{io.ErrUnexpectedEOF, idleGrace, false},                     // the answer had begun
		{nil, idleGrace, false},
	} {
		if got := crossesClose(c.err, c.idle); got != c.want {
			t.Errorf("crossesClose(%v, %v) = %v", c.err, c.idle, got)
		}
	}
}

func (tr *traffic) lose(w rig.RequestType, n int, err error) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lost = append(tr.lost, fmt.Sprintf("%s %v, request %d of its client: %v", time.Now().Format("15:04:05.000"), w, n, err))
}

// latencies returns the median and the 99th percentile of the latencies of unstreamed requests
// since its last call.
func (tr *traffic) latencies() (p50, p99 time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	all := tr.latency
	tr.latency = nil
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}
