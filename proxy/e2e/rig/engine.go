package rig

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
)

// StartEngine runs a simulated engine until the test ends. By default, the engine uses a free port.
func StartEngine(t testing.TB, o sim.Options) *sim.Engine {
	t.Helper()
	anywhere := o.Listen == ""
	for tries := 0; ; tries++ {
		if anywhere {
			o.Listen = ReusableAddress()
		}
		e := sim.New(o)
		err := e.Start()
		if err == nil {
			t.Cleanup(e.Close)
			return e
		}
		if !anywhere || tries == 20 {
			t.Fatal(err)
		}
	}
}

// ReusableAddress returns a loopback address for a listener that a test stops and starts again. The
// port is below the kernel's ephemeral range. ReusableAddress never returns the same port twice, and
// skips ports that another process uses.
func ReusableAddress() string {
	const ports = 17000
	address := ""
	for range ports {
		address = fmt.Sprintf("127.0.0.1:%d", 12000+lastPort.Add(1)%ports)
		if ln, err := net.Listen("tcp", address); err == nil {
			ln.Close()
			break
		}
	}
	return address
}

// lastPort starts with a random port, because other processes may also run tests.
var lastPort atomic.Uint32

func init() { lastPort.Store(rand.Uint32N(17000)) }

// ListenLoopback opens a listener on a free port of loopback. The caller must close it.
func ListenLoopback(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// TwoEngines returns default options for two engines.
func TwoEngines() []sim.Options { return []sim.Options{{}, {}} }

// QuietProbes prevents probes from changing a test's counts. The only probe during a test is the
// first one, before the edge counts as started.
const QuietProbes = "probe: { interval: 1h, timeout: 15s }"

// WantServedAtMost checks that at most upTo requests have reached the first engine.
func (e *Edge) WantServedAtMost(t testing.TB, upTo int64) {
	t.Helper()
	if n := e.Engines[0].Stats().Requests; n > upTo {
		t.Errorf("%d requests upstream, want at most %d", n, upTo)
	}
}
