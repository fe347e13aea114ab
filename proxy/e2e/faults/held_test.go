//go:build unix

package faults

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/raced"
	"penstock/proxy/e2e/rig"
)

// heldStreams returns the number of streams for TestFault86_HeldStreams. It is ten thousand in a
// long test run, or fewer if the descriptor limit does not allow that many. Each stream needs more
// than one descriptor, because the process is both client and engine.
func heldStreams(t *testing.T) int {
	n := 2000
	if isFullLength(t) {
		n = 10_000
	}
	var limit syscall.Rlimit
	noError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	if most := int(limit.Cur/2) - 600; n > most {
		t.Logf("the limit on descriptors allows %d streams of %d", most, n)
		n = most
	}
	return n
}

// TestFault86_HeldStreams checks that thousands of streams from silent engines all complete and are
// counted, and that the memory for each stream is limited.
func TestFault86_HeldStreams(t *testing.T) {
	t.Parallel()
	streams := heldStreams(t)
	goOn := make(chan struct{})
	f := startFakeEngine(t, func(c *fakeCall) {
		if !strings.Contains(c.body, `"stream":true`) {
			c.answer()
			return
		}
		c.head("text/event-stream", -1)
		c.chunk("data: " + streamAnswer[0] + "\n\n")
		<-goOn
		for _, data := range append(streamAnswer[1:len(streamAnswer):len(streamAnswer)], "[DONE]") {
			c.chunk("data: " + data + "\n\n")
		}
		c.chunk("")
	})
	let := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(let) // runs before the engine waits for its goroutines
	e := start(t, rig.Setup{
		Fakes: []string{f.url}, Upstream: "concurrency: 20000", Timeouts: "first_event: 10m, idle: 10m", Stream: "keepalive: 0s",
		// Otherwise, the amount of garbage depends on when the last collection ended.
		Under: []string{"env", "GOGC=10"},
	})
	request := []byte(e.RequestBytes(rig.ChatStream.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, "")))
	held := make([]net.Conn, streams)
	defer func() {
		for _, c := range held {
			if c != nil {
				c.Close()
			}
		}
	}()
	open := func(i int) {
		c, err := net.Dial("tcp", e.Addr)
		if err != nil {
			t.Error(err)
			return
		}
		held[i] = c
		_ = c.SetDeadline(time.Now().Add(10 * rig.WaitTimeout))
		_, _ = c.Write(request)
		if got := readUntil(c, `"content":"Go"`); !bytes.Contains(got, []byte(`"content":"Go"`)) {
			t.Errorf("stream %d does not begin: %.200s", i, got)
		}
	}
	open(0)
	before := e.MemoryBytes("VmRSS")
	inParallel(streams-1, func(i int) { open(i + 1) })
	if n := e.Metric("penstock_calls_inflight"); n != float64(streams) {
		t.Errorf("%v calls are in flight, want %d", n, streams)
	}
	each := (e.MemoryBytes("VmRSS") - before) / int64(streams)
	t.Logf("%d streams are held, at %d bytes each", streams, each)
	if each > 26<<10 && !raced.Enabled {
		t.Errorf("a held stream costs %d bytes", each)
	}
	e.SendRequest(rig.Chat, "").VisibleText(rig.Chat) // another client is served during this time
	let()
	inParallel(streams, func(i int) {
		if held[i] == nil {
			return
		}
		if got := readUntil(held[i], "[DONE]"); !bytes.Contains(got, []byte(`"finish_reason":"stop"`)) || !bytes.Contains(got, []byte("data: [DONE]")) {
			t.Errorf("stream %d is not whole: %.300s", i, got)
		}
	})
}

// inParallel calls f for 0 to n-1 from a few goroutines.
func inParallel(n int, f func(i int)) {
	var group sync.WaitGroup
	const workers = 8
	for w := range workers {
		group.Go(func() {
			for i := w; i < n; i += workers {
				f(i)
			}
		})
	}
	group.Wait()
}

// readUntil reads until the text contains mark, or until the end.
func readUntil(r io.Reader, mark string) []byte {
	var got []byte
	piece := make([]byte, 2<<10)
	for !bytes.Contains(got, []byte(mark)) {
		n, err := r.Read(piece)
		got = append(got, piece[:n]...)
		if err != nil {
			break
		}
	}
	return got
}
