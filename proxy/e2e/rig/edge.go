package rig

import (
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Edge is a running edge as seen by clients, engines and operators. Methods that may fail the test
// must be called from the test goroutine. All other methods are safe for concurrent use.
type Edge struct {
	T       testing.TB
	Engines []*sim.Engine
	Client  *http.Client
	Key     string
	Setup   Setup

	URL   string // http://127.0.0.1:PORT, without /v1
	Addr  string
	Admin string

	// Log is the edge's log. It is empty if the setup sends the log elsewhere.
	Log *Buffer
}

// Connect returns an Edge for which only the address of the API and a key are known. Only methods
// that send requests to the API work.
func Connect(t testing.TB, url, key string) *Edge {
	return &Edge{T: t, URL: url, Key: key, Client: NewClient(t), Log: new(Buffer)}
}

func newEdge(t testing.TB, s Setup) *Edge {
	t.Helper()
	if len(s.Engines) == 0 && len(s.Fakes) == 0 {
		s.Engines = []sim.Options{{}}
	}
	e := &Edge{T: t, Setup: s, Client: NewClient(t), Log: new(Buffer)}
	for _, o := range s.Engines {
		e.Engines = append(e.Engines, StartEngine(t, o))
	}
	return e
}

// writeStacksOnce ensures that the process's stacks are written only once, even if many tests are
// late.
var writeStacksOnce sync.Once

// endBeforeDeadline calls end shortly before the package's deadline. Requests that wait for the
// edge then fail, so this test ends, and the other tests can report their results.
func (e *Edge) endBeforeDeadline(end func()) {
	const enough = 30 * time.Second // for the package's remaining tests
	d, ok := e.T.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return
	}
	deadline, ok := d.Deadline()
	if !ok {
		return
	}
	ended := make(chan struct{})
	timer := time.AfterFunc(time.Until(deadline)-enough, func() {
		defer close(ended)
		e.T.Errorf("still running %v before the deadline of the package: the edge is stopped", enough)
		writeStacksOnce.Do(func() {
			text := make([]byte, 1<<20)
			e.T.Logf("%s", text[:runtime.Stack(text, true)])
		})
		end()
	})
	e.T.Cleanup(func() {
		if !timer.Stop() {
			<-ended
		}
	})
}

// waitUpstreamsUp waits until every upstream is up, unless the setup is Cold.
func (e *Edge) waitUpstreamsUp() {
	e.T.Helper()
	if e.Setup.Cold {
		return
	}
	WaitFor(e.T, WaitTimeout, "all upstreams up", func() bool {
		for _, u := range e.Status().Upstreams {
			if u.State != "up" {
				return false
			}
		}
		return true
	})
}
