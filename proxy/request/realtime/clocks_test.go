package realtime

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/request/call"
	socket "penstock/proxy/request/websocket"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/realtime"
)

// fasthttp starts a goroutine that updates its date. The goroutine must not start in a synctest
// bubble.
var _ = new(fasthttp.ResponseHeader).AppendBytes(nil)

// open runs serve with a client's session in a synctest bubble. It returns the client's end of the
// connection after the handshake response.
func open(t *testing.T, serve func(*session)) net.Conn {
	t.Helper()
	f := &config.File{Auth: config.AuthNone}
	f.Limits.RequestBody = 1 << 20
	f.Timeouts.ClientBody, f.Timeouts.Write = config.Duration(30*time.Second), config.Duration(30*time.Second)
	services := &call.Services{
		Current: func() *snapshot.Snapshot { return &snapshot.Snapshot{Config: f} },
		Bodies:  limit.NewMemoryBudget(1 << 20), Calls: observe.NewCalls(metrics.NewSet(), zap.NewNop(), config.Log{}),
	}
	all := New(services, func() bool { return false })
	client, edge := net.Pipe()
	server := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		side := socket.NewSocket(ctx, services)
		if refused := side.Accept(ctx, "realtime"); refused != nil {
			t.Error(refused)
			return
		}
		one := newSession(all, side, nil, nil)
		side.Serve(ctx, func() { serve(one) })
	}}
	go func() { _ = server.ServeConn(edge) }()
	_, _ = io.WriteString(client, "GET /v1/realtime HTTP/1.1\r\nHost: edge\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	var answer strings.Builder
	for b := make([]byte, 1); !strings.HasSuffix(answer.String(), "\r\n\r\n"); answer.Write(b) {
		if _, err := client.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	return client
}

// withEngine returns a function that runs the timers of a session with an engine, and reads from
// the client. When the session ends, the function sends the reason to ended.
func withEngine(about *call.DialogueEngine, ended chan<- *sessionEnding) func(*session) {
	return func(s *session) {
		s.engineInfo = about
		s.startTimer(true)
		go func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for !s.ended {
				s.changed.Wait()
			}
			s.clientSocket.CloseNow()
			ended <- s.outcome
		}()
		message := s.clientSocket.NewIncomingMessage(nil)
		for {
			if _, err := s.clientSocket.Receive(message, maxEarlyMessage, maxEarlyMessage); err != nil {
				return
			}
			s.lastMessage.Store(time.Now().UnixNano())
		}
	}
}

func readFrame(t *testing.T, c net.Conn) (op byte, payload string) {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, err.Error()
	}
	n := int(head[1])
	if n == 126 {
		var long [2]byte
		_, _ = io.ReadFull(c, long[:])
		n = int(binary.BigEndian.Uint16(long[:]))
	}
	b := make([]byte, n)
	_, _ = io.ReadFull(c, b)
	return head[0] & 0xf, string(b)
}

// writeFrame writes a masked frame to c. The mask is all zeros.
func writeFrame(c net.Conn, op byte, payload string) {
	_, _ = c.Write(append([]byte{0x80 | op, 0x80 | byte(len(payload)), 0, 0, 0, 0}, payload...))
}

const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa
)

var idleMinuteEngine = &call.DialogueEngine{Idle: time.Minute}

// TestSilentClient checks that a client is pinged after 30 seconds. If the client does not answer,
// it must be disconnected after 60 seconds, and its session must end.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan *sessionEnding, 1)
		client := open(t, withEngine(idleMinuteEngine, ended))
		begun := time.Now()
		if op, _ := readFrame(t, client); op != opPing || time.Since(begun) != pingEvery {
			t.Errorf("got the frame %d after %v, want a ping after %v", op, time.Since(begun), pingEvery)
		}
		if _, why := readFrame(t, client); why != io.EOF.Error() || time.Since(begun) != 2*pingEvery {
			t.Errorf("got %s after %v, want the end after %v", why, time.Since(begun), 2*pingEvery)
		}
		if end := <-ended; end.code != 0 || end.clean || end.apiErr != nil {
			t.Errorf("the session ended with %+v, want as for a client that has left", end)
		}
	})
}

// TestSessionClocks checks how long a session lasts if the client answers every ping. The client
// speaks either regularly or never.
func TestSessionClocks(t *testing.T) {
	for name, c := range map[string]struct {
		about  *call.DialogueEngine
		speaks time.Duration
		after  time.Duration
		says   string
	}{
		"idle":               {idleMinuteEngine, 0, defaultIdleTimeout, "idle for too long"},
		"idle, configured":   {&call.DialogueEngine{Idle: time.Minute, Quiet: 45 * time.Second}, 0, 45 * time.Second, "idle for too long"},
		"long":               {idleMinuteEngine, time.Minute, defaultMaxDuration, "maximum duration"},
		"total, configured":  {&call.DialogueEngine{Idle: time.Minute, Total: 95 * time.Second}, time.Minute, 95 * time.Second, "maximum duration"},
		"spoken to the last": {idleMinuteEngine, 9 * time.Minute, defaultMaxDuration, "maximum duration"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan *sessionEnding, 1)
				client := open(t, withEngine(c.about, ended))
				begun := time.Now()
				go func() {
					for op, payload := readFrame(t, client); op == opPing; op, payload = readFrame(t, client) {
						writeFrame(client, opPong, payload)
					}
				}()
				for {
					spoke := time.NewTimer(2 * defaultMaxDuration)
					if c.speaks > 0 {
						spoke.Reset(c.speaks)
					}
					select {
					case <-spoke.C:
						writeFrame(client, opText, `{}`)
						continue
					case end := <-ended:
						spoke.Stop()
						if after := time.Since(begun); after != c.after || end.apiErr == nil || !strings.Contains(end.apiErr.Message, c.says) || !end.clean {
							t.Errorf("ended after %v with %+v, want after %v with %q", after, end, c.after, c.says)
						}
					}
					break
				}
			})
		})
	}
}

// TestSilentEngine checks an engine that is silent for longer than its time limit. The session must
// end only if the engine has not sent all text.
func TestSilentEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan *sessionEnding, 1)
		limit := 20 * time.Second
		client := open(t, func(s *session) {
			if _, refused := s.protocol.ConnectEngine(realtime.ProtocolVLLM, "ears"); refused != nil {
				t.Error(refused)
			}
			time.AfterFunc(3*limit/2, func() {
				s.protocol.PrepareAppend()
				s.lastEngineAt.Store(time.Now().UnixNano())
				if _, _, refused := s.protocol.CommitAudio(); refused != nil {
					t.Error(refused)
				}
			})
			withEngine(&call.DialogueEngine{Idle: limit}, ended)(s)
		})
		begun := time.Now()
		go func() {
			for op, payload := readFrame(t, client); op == opPing; op, payload = readFrame(t, client) {
				writeFrame(client, opPong, payload)
			}
		}()
		end := <-ended
		if after := time.Since(begun); after < 5*limit/2 || after > 7*limit/2 || end.engineErr == nil {
			t.Errorf("ended after %v with %+v, want a failure of the engine %v after the commit", after, end, limit)
		}
	})
}

// TestNoModel checks a client that does not name a model in time. The client must get an error, and
// the session must be closed with 1008.
func TestNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := open(t, (*session).serve)
		begun := time.Now()
		if op, payload := readFrame(t, client); op != opText || !strings.Contains(payload, "session.created") {
			t.Fatalf("got %d %q, want session.created", op, payload)
		}
		time.Sleep(modelTimeout / 2)
		writeFrame(client, opText, `{"type":"session.update","session":{}}`)
		if op, payload := readFrame(t, client); op != opText || !strings.Contains(payload, "session.updated") {
			t.Fatalf("got %d %q, want session.updated", op, payload)
		}
		if op, payload := readFrame(t, client); !strings.Contains(payload, "within 10 seconds") || time.Since(begun) != modelTimeout {
			t.Errorf("got %d %q after %v, want an error after %v", op, payload, time.Since(begun), modelTimeout)
		}
		if op, payload := readFrame(t, client); op != opClose || payload[:2] != "\x03\xf0" {
			t.Errorf("got %d %q, want a close with 1008", op, payload)
		}
		writeFrame(client, opClose, "\x03\xf0")
		if _, why := readFrame(t, client); why != io.EOF.Error() {
			t.Error(why)
		}
	})
}
