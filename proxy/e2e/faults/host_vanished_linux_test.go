package faults

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"penstock/proxy/e2e/rig"
)

// vanishing is a fake engine on a host that can disappear. Once it has disappeared, the kernel
// drops all packets for the engine's sockets. Packets are not acknowledged, and connections are
// neither refused nor reset.
type vanishing struct {
	*fakeEngine
	ln *net.TCPListener

	mu    sync.Mutex
	conns []net.Conn
}

func vanishingEngine(t testing.TB, script func(c *fakeCall)) *vanishing {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // Multipath TCP sockets do not support filters
	ln, err := plain.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	v := &vanishing{fakeEngine: &fakeEngine{t: t, script: script, url: "http://" + ln.Addr().String()}, ln: ln.(*net.TCPListener)}
	serveOn(t, ln, func(c net.Conn) {
		v.mu.Lock()
		v.conns = append(v.conns, c)
		v.mu.Unlock()
		v.serve(c)
	})
	return v
}

func (v *vanishing) vanish() {
	dropSocketPackets(v.t, v.ln)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.conns {
		dropSocketPackets(v.t, c.(*net.TCPConn))
	}
}

func dropSocketPackets(t testing.TB, of syscall.Conn) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	raw, err := of.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
		})
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestHostVanishesUnderCalls makes the engine's host vanish after it has acknowledged all bytes. A
// stream whose client has already received content must end in time. Every other call must be
// answered by another engine, even after keep-alives, and even if the retry budget is exhausted.
func TestHostVanishesUnderCalls(t *testing.T) {
	t.Parallel()
	for name, stream := range map[string]string{
		"silent": "commit_after: 1s, keepalive: 500ms",
		// White space has been sent before the unstreamed answers.
		"kept": "commit_after: 1s, keepalive: 500ms, whole_keepalive: 500ms",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostVanishesUnderCalls(t, stream)
		})
	}
}

func hostVanishesUnderCalls(t *testing.T, stream string) {
	const each = 6
	v := vanishingEngine(t, func(c *fakeCall) {
		if strings.Contains(c.body, "show-some") {
			c.head("text/event-stream", -1)
			c.chunk(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}` + "\n\n")
		}
		_, _ = c.in.Peek(1) // waits until the edge closes the connection
	})
	e := start(t, rig.Setup{
		Engines: rig.TwoEngines()[:1], Fakes: []string{v.url}, Model: "policy: round_robin",
		Upstream: "concurrency: 100, probe: { interval: 500ms, timeout: 2s, fall: 2 }", Timeouts: "connect: 2s", Stream: stream,
	})
	type result struct {
		kind string
		text string
	}
	results := make(chan result, 12*each)
	ask := func(kind string, w rig.RequestType, prompt string) {
		go func() {
			r := e.Post(w.Path, w.RequestBody("sim", prompt, ""))
			results <- result{kind, fmt.Sprintf("%d %s", r.Status, r.Body)}
		}()
	}
	asked := 0
	for range 2 * each { // round robin: each engine gets half of the calls
		ask("shown", rig.ChatStream, "show-some")
		ask("stream", rig.MessagesStream, rig.Prompt)
		ask("whole", rig.Chat, rig.Prompt)
		asked += 3
	}
	there := 0
	rig.WaitFor(t, rig.WaitTimeout, "the calls are at the engines", func() bool { there, _ = v.callCounts(); return there+len(results) == asked })
	// long enough for the edge to commit the streams and send keep-alives
	time.Sleep(1500 * time.Millisecond)
	v.vanish()
	begun := time.Now()
	broken := 0
	for range asked {
		r := rig.Receive(t, 25*time.Second, "the calls end", results)
		switch {
		case !strings.HasPrefix(r.text, "200 "):
			t.Errorf("%s: %s", r.kind, r.text)
		case !strings.Contains(r.text, `"error"`):
		case r.kind == "shown" && strings.Contains(r.text, `"upstream_bad_response"`) && strings.Contains(r.text, `"Hi"`):
			broken++
		default:
			t.Errorf("%s: %s", r.kind, r.text)
		}
	}
	t.Logf("all have ended %v after the host went", time.Since(begun))
	if n := e.Metric("penstock_calls_moved_total", `reason="vanished"`); n != float64(there-broken) || n < each || broken == 0 {
		t.Errorf("%v were moved of the %d that were there, %d of which broke off", n, there, broken)
	}
	if n := e.Metric("penstock_retries_total") + e.Metric("penstock_retries_denied_total"); n != 0 {
		t.Errorf("%v of the moves were counted as retries", n)
	}
}
