package faults

import (
	"bufio"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 33 to 37: clients that disconnect, stop reading, or read slowly.

var disconnects = []struct {
	name string
	say  func(*rig.RawConn)
}{
	{"FIN", func(c *rig.RawConn) { c.Close() }},
	{"RST", func(c *rig.RawConn) {
		if secure, ok := c.Conn.(*tls.Conn); ok {
			c = rig.NewRawConn(c.T, secure.NetConn())
		}
		c.Reset()
	}},
	{"half-close", func(c *rig.RawConn) { _ = c.Conn.(interface{ CloseWrite() error }).CloseWrite() }},
}

// freeTime is how long the engine may stay busy after a client has disconnected.
const freeTime = 100*time.Millisecond + 2*time.Second

// wantFreed checks that the engine is free, that the log and the metrics show the reason, and that
// the disconnect does not count as an engine failure.
func (e *edge) wantFreed(phase string) {
	e.T.Helper()
	engine := e.Engines[0]
	rig.WaitFor(e.T, freeTime, "the engine is free", func() bool { s := engine.Stats(); return s.Running+s.Waiting == 0 && s.Aborted == 1 })
	if l := e.LastAccessLine(); l.Outcome != "client_gone" || l.Attempts != 1 || l.Status != 499 && l.Status != 200 {
		e.T.Errorf("the log says %+v", l)
	}
	if n := e.Metric("penstock_client_aborts_total", `phase="`+phase+`"`); n != 1 {
		e.T.Errorf("the abort is not counted as %s: %s", phase, e.MetricsText())
	}
	for _, u := range e.Status().Upstreams {
		if u.Breaker != "closed" && u.Breaker != "" || u.LastFailure != nil {
			e.T.Errorf("the engine is blamed: %+v", u)
		}
	}
	rig.WaitFor(e.T, rig.WaitTimeout, "the connection to the engine is closed", func() bool { return engine.Stats().Conns <= 1 })
	e.SendRequest(rig.Chat, "").WantStatus(200)
}

// TestFault39_LeavesInMidBody checks a client that disconnects before the end of its body. It must
// count as disconnected, and its request must not count as malformed. A client that has only closed
// its sending side must still receive the error.
func TestFault39_LeavesInMidBody(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, dial := startSecure(t, secure, rig.Setup{Models: ears, Upstream: rig.QuietProbes})
			aborts := func(phase string) float64 {
				return e.Metric("penstock_client_aborts_total", `phase="`+phase+`"`)
			}
			for _, bye := range disconnects {
				for _, c := range []struct {
					name    string
					w       rig.RequestType
					framing string
					body    string // the announced length, and the bytes that are sent
					phase   string
				}{
					{"sized", rig.Chat, "Content-Length: 1000", `{"model":"sim",`, "body"},
					{"sized", rig.Messages, "Content-Length: 100000", `{"model":"sim",`, "body"},
					{"no byte", rig.Responses, "Content-Length: 1000", "", "body"},
					{"between chunks", rig.Chat, "Transfer-Encoding: chunked", "f\r\n{\"model\":\"sim\",\r\n", "body"},
					{"in a chunk", rig.Messages, "Transfer-Encoding: chunked", "ff\r\n{\"model\":\"sim\",", "body"},
					{"in a size", rig.Messages, "Transfer-Encoding: chunked", "f\r\n{\"model\":\"sim\",\r\nf", "body"},
					{"in the trailers", rig.Responses, "Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\nX: y\r\n", "body"},
					{"sized", rig.Transcription, "Content-Length: 1000", rig.Transcription.RequestBody("ears", rig.Prompt, "")[:100], "body"},
					{"in a chunk", rig.Transcription, "Transfer-Encoding: chunked", "fff\r\n" + rig.Transcription.RequestBody("ears", rig.Prompt, "")[:100], "body"},
					{"on its way", rig.Transcription, "Content-Length: 1000000", rig.Transcription.RequestBody("ears", strings.Repeat("x", 400<<10), "")[:400<<10], "waiting"},
				} {
					if c.body == "" && bye.name == "RST" {
						continue // the test cannot know when the edge has read the head
					}
					t.Run(strings.Join([]string{bye.name, c.w.String(), c.name}, "/"), func(t *testing.T) {
						before, lines := aborts(c.phase), len(e.AccessLines())
						conn := dial(t)
						_ = conn.Send(e.RequestHead("POST", c.w.Path, c.w.ContentType(), c.framing) + c.body)
						if c.body != "" {
							rig.WaitFor(t, rig.WaitTimeout, "the call has begun", func() bool {
								return e.Metric("penstock_calls_inflight") == 1 && (c.phase == "body" || e.Metric("penstock_upstream_inflight") == 1)
							})
						}
						bye.say(conn)
						if bye.name == "half-close" {
							conn.ReadReply("POST").WantRefused(c.w, badRequest)
							if rest, ok := conn.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
								t.Errorf("not closed, or more came: %.200q", rest)
							}
						}
						rig.WaitFor(t, rig.WaitTimeout, "the client is counted", func() bool { return aborts(c.phase) == before+1 })
						if c.body == "" {
							return // the request was not a call yet
						}
						rig.WaitFor(t, rig.WaitTimeout, "the call is logged", func() bool { return len(e.AccessLines()) == lines+1 })
						if l := e.AccessLines()[lines]; l.Outcome != "client_gone" || l.Status != 499 || l.Code != "client_gone" {
							t.Errorf("the log says %+v", l)
						}
					})
				}
			}
			if n := e.Metric("penstock_errors_total"); n != 0 {
				t.Errorf("%v errors are counted: %s", n, e.MetricsText())
			}
			for _, u := range e.Status().Upstreams {
				if u.Breaker != "closed" && u.Breaker != "" || u.LastFailure != nil {
					t.Errorf("the engine is blamed: %+v", u)
				}
			}
		})
	}
}

func TestFault33_LeavesWhileQueued(t *testing.T) {
	t.Parallel()
	for _, bye := range disconnects {
		t.Run(bye.name, func(t *testing.T) {
			t.Parallel()
			s := rig.Setup{Upstream: "concurrency: 1, " + rig.QuietProbes, Model: "queue: { depth: 8, wait: 30s }"}
			forEachRequestType(t, rig.TextRequestTypes, s, func(e *edge, w rig.RequestType) {
				holder := e.OpenStream(rig.Chat.Path, rig.ChatStream.RequestBody("sim", rig.Prompt, `"tokens":1000,"delay_ms":100`))
				holder.Next()
				c := e.Dial()
				_ = c.Send(e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, "")))
				rig.WaitFor(e.T, rig.WaitTimeout, "the call is in the queue", func() bool { return e.Status().CountCalls("queued") == 1 })
				bye.say(c)
				rig.WaitFor(e.T, freeTime, "the queue is left", func() bool { return e.Metric("penstock_client_aborts_total", `phase="queued"`) == 1 })
				holder.Disconnect()
				e.WaitIdle()
				e.SendRequest(w, "").WantStatus(200)
				if n := e.Engines[0].Stats().Requests; n != 2 {
					e.T.Errorf("%d requests upstream, want 2: the one that left is not to come later", n)
				}
			})
		})
	}
}

func TestFault34_LeavesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{"prefill": "", "blackhole": "blackhole", "head only": "stall-after=0"} {
		for _, bye := range disconnects {
			t.Run(name+"/"+bye.name, func(t *testing.T) {
				t.Parallel()
				forEachRequestType(t, rig.TextRequestTypes, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
					e.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
					c := e.Dial()
					_ = c.Send(e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, `"ttft_ms":60000`)))
					rig.WaitFor(e.T, rig.WaitTimeout, "the engine works", func() bool { return e.Engines[0].Stats().Requests == 1 })
					bye.say(c)
					e.wantFreed("waiting")
				})
			})
		}
	}
}

func TestFault35_LeavesInMidStream(t *testing.T) {
	t.Parallel()
	for name, control := range map[string]string{
		"while it speaks":    `"tokens":100000,"delay_ms":5`,
		"while it is silent": `"tokens":3,"delay_ms":60000`,
	} {
		for _, bye := range disconnects {
			t.Run(name+"/"+bye.name, func(t *testing.T) {
				t.Parallel()
				forEachRequestType(t, rig.StreamRequestTypes, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
					c := e.Dial()
					_ = c.Send(e.RequestBytes(w.Path, w.RequestBody("sim", rig.Prompt, control)))
					for line := ""; !strings.HasPrefix(line, "data: "); {
						var err error
						if line, err = c.In.ReadString('\n'); err != nil {
							e.T.Fatal(err)
						}
					}
					bye.say(c)
					e.wantFreed("streaming")
				})
			})
		}
	}
}

// TestFault36_StopsReading checks that the edge reads an engine's answer only as fast as the client
// does. If the client stops reading, the edge must close both connections after the write timeout.
func TestFault36_StopsReading(t *testing.T) {
	t.Parallel()
	s := rig.Setup{Engines: longWinded, Upstream: rig.QuietProbes, Timeouts: "write: 1s"}
	forEachRequestType(t, rig.StreamRequestTypes, s, func(e *edge, w rig.RequestType) {
		c := e.Dial()
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		_ = c.Send(e.RequestBytes(w.Path, long(w, 10_000_000)))
		if _, err := c.In.ReadString('\n'); err != nil {
			e.T.Fatal(err)
		}
		rig.WaitFor(e.T, rig.WaitTimeout, "the client is given up", func() bool { return e.Metric("penstock_client_aborts_total") == 1 })
		e.wantFreed("stalled")
		// The kernel buffers a few megabytes. A higher number would mean that the edge buffers the
		// answer.
		if n := e.Engines[0].Stats().Tokens; n > 500_000 {
			e.T.Errorf("the engine was read on for %d tokens", n)
		}
		e.WantPeakMemory(200 << 20)
	})
}

// TestFault37_ReadsSlowly checks that a client that reads slowly but steadily receives the whole
// answer.
func TestFault37_ReadsSlowly(t *testing.T) {
	t.Parallel()
	for _, w := range []rig.RequestType{rig.ChatStream, rig.MessagesStream, rig.ResponsesStream, rig.Chat} {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			const write = 4 * time.Second
			e := start(t, rig.Setup{Engines: longWinded, Timeouts: "write: 4s"})
			c := e.Dial()
			_ = c.SetDeadline(time.Now().Add(4 * rig.WaitTimeout))
			_ = c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
			tokens := 30_000
			if !w.Stream {
				tokens = 800_000
			}
			_ = c.Send(e.RequestBytes(w.Path, long(w, tokens)))
			begun := time.Now()
			c.In = bufio.NewReaderSize(&slowReader{from: c.Conn, rate: 512 << 10}, 256<<10)
			r := c.ReadReply("POST")
			if took := time.Since(begun); took < 3*write/2 {
				t.Errorf("%d bytes in %v are no test of slow reading", len(r.Body), took)
			}
			if n := len(strings.Fields(r.VisibleText(w))); n < tokens/2 {
				t.Errorf("%d words came of %d tokens", n, tokens)
			}
		})
	}
}

// slowReader reads at a rate, in bytes per second. On a busy machine, it catches up by reading
// larger pieces.
type slowReader struct {
	from  net.Conn
	rate  int
	begun time.Time
	read  int
}

func (s *slowReader) Read(p []byte) (int, error) {
	if s.begun.IsZero() {
		s.begun = time.Now()
	}
	due := 0
	for due <= 0 {
		time.Sleep(10 * time.Millisecond) // the client must read at this pace
		due = int(time.Since(s.begun).Seconds()*float64(s.rate)) - s.read
	}
	n, err := s.from.Read(p[:min(len(p), due)])
	s.read += n
	return n, err
}

var longWinded = []sim.Options{{MaxModelLen: 1 << 30}}

func long(w rig.RequestType, tokens int) string {
	n := strconv.Itoa(tokens)
	return strings.Replace(w.RequestBody("sim", rig.Prompt, `"tokens":`+n), `"max_tokens":1000`, `"max_tokens":`+n, 1)
}
