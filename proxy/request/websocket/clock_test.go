package websocket

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
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
)

// open runs a connection in a synctest bubble, and returns the client's end of the connection.
func open(t *testing.T) (client net.Conn, c *Server) {
	t.Helper()
	f := &config.File{Auth: config.AuthNone}
	f.Responses.WebSocket = true
	f.Limits.RequestBody = 1 << 20
	f.Timeouts.ClientBody, f.Timeouts.Write = config.Duration(30*time.Second), config.Duration(30*time.Second)
	s := &call.Services{
		Current: func() *snapshot.Snapshot { return &snapshot.Snapshot{Config: f} },
		Bodies:  limit.NewMemoryBudget(1 << 20), Calls: observe.NewCalls(metrics.NewSet(), zap.NewNop(), config.Log{}),
	}
	c = New(s, func() bool { return false })
	client, edge := net.Pipe()
	var ctx fasthttp.RequestCtx
	ctx.Init2(edge, nil, true)
	ctx.Request.Header.SetRequestURI("/v1/responses")
	for _, h := range [][2]string{
		{"Connection", "Upgrade"}, {"Upgrade", "websocket"}, {"Sec-WebSocket-Version", "13"}, {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
	} {
		ctx.Request.Header.Set(h[0], h[1])
	}
	p, refused := acceptHandshake(&ctx)
	if refused != nil {
		t.Fatal(refused)
	}
	session := newSession(&c.shared, &ctx, nil, p, c.add, c.remove)
	go session.takeConn(edge)
	return client, c
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

// TestSilentPeer checks that a client that does not answer the first ping is disconnected one
// minute after it connected.
func TestSilentPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := open(t)
		begun := time.Now()
		if op, payload := readFrame(t, client); op != opPing || time.Since(begun) != pingEvery {
			t.Fatalf("got the frame %d %q after %v, want a ping after %v", op, payload, time.Since(begun), pingEvery)
		}
		if _, why := readFrame(t, client); why != io.EOF.Error() || time.Since(begun) != 2*pingEvery {
			t.Errorf("got %s after %v, want the end after %v", why, time.Since(begun), 2*pingEvery)
		}
		synctest.Wait()
		if open, _ := c.ConnectionCounts(); open != 0 {
			t.Error("it is still open")
		}
	})
}

// TestIdle checks that the connection of a client that only answers pings is closed with 1000 after
// ten minutes.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, c := open(t)
		begun := time.Now()
		for {
			op, payload := readFrame(t, client)
			if op == opPing {
				writeFrame(client, opPong, payload)
				continue
			}
			if after := time.Since(begun); op != opClose || payload[:2] != "\x03\xe8" || after < idleTimeout || after > idleTimeout+pingEvery {
				t.Errorf("got the frame %d %q after %v, want a close with 1000 after %v", op, payload, after, idleTimeout)
			}
			break
		}
		writeFrame(client, opClose, "\x03\xe8")
		if _, why := readFrame(t, client); why != io.EOF.Error() {
			t.Error(why)
		}
		synctest.Wait()
		if open, _ := c.ConnectionCounts(); open != 0 {
			t.Error("it is still open")
		}
	})
}

// TestSilentAfterClose checks a client that gets a close frame while it is sending a message, and
// does not confirm the close frame. The client must be disconnected after five seconds, even if it
// continues to send.
func TestSilentAfterClose(t *testing.T) {
	for _, sends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client, c := open(t)
			_, _ = client.Write([]byte{0x80 | opText, 0x80 | 127, 0, 0, 0, 0, 0, 0xf, 0, 0, 0, 0, 0, 0, '{'})
			op, payload := readFrame(t, client)
			for op == opPing {
				op, payload = readFrame(t, client)
			}
			if op != opClose || payload[:2] != "\x03\xf0" {
				t.Fatalf("got the frame %d %q, want a close with 1008", op, payload)
			}
			begun, sent := time.Now(), make(chan struct{})
			if !sends {
				close(sent)
			} else {
				go func() {
					defer close(sent)
					for err := error(nil); err == nil; time.Sleep(time.Second) {
						_, err = client.Write([]byte{' '})
					}
				}()
			}
			_ = client.SetReadDeadline(time.Now().Add(time.Minute))
			if _, why := readFrame(t, client); why != io.EOF.Error() || time.Since(begun) > closeTimeout {
				t.Errorf("sends: %v: %s after %v", sends, why, time.Since(begun))
			}
			time.Sleep(time.Second)
			if open, _ := c.ConnectionCounts(); open != 0 {
				t.Error("it is still open")
			}
			client.Close()
			<-sent
		})
	}
}

// TestMaximumAge checks that even a busy connection is closed after an hour. The client must get
// the error that the protocol defines.
func TestMaximumAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := open(t)
		begun := time.Now()
		said := make(chan struct{})
		defer func() { <-said }()
		go func() {
			defer close(said)
			for time.Since(begun) < maxConnAge+time.Minute {
				<-time.After(time.Minute)
				writeFrame(client, opText, `{"type":"response.create","previous_response_id":"x","model":"m"}`)
			}
		}()
		for {
			op, payload := readFrame(t, client)
			switch {
			case op == opPing:
				go writeFrame(client, opPong, payload)
			case strings.Contains(payload, `"previous_response_not_found"`):
			case strings.Contains(payload, `"websocket_connection_limit_reached"`):
				if after := time.Since(begun); after < maxConnAge || after > maxConnAge+pingEvery {
					t.Errorf("told after %v", after)
				}
				// A ping may precede the error, because both are due at the same time.
				for op, payload = readFrame(t, client); op == opPing; op, payload = readFrame(t, client) {
				}
				if op != opClose || payload[:2] != "\x03\xe8" {
					t.Errorf("got the frame %d %q, want a close with 1000", op, payload)
				}
				client.Close()
				return
			default:
				t.Fatalf("got the frame %d %q after %v, want a ping or a close", op, payload, time.Since(begun))
			}
		}
	})
}
