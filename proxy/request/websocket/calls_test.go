package websocket

import (
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/call"
	"penstock/proxy/telemetry/guard"
)

// TestNoCallAfterClientLeft checks that waiting calls do not start after the running call ended
// because the client disconnected. They must not start even if no read from the connection has
// failed yet.
func TestNoCallAfterClientLeft(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := listen.New(inner, listen.Options{Guard: guard.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	there, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	bodies := limit.NewMemoryBudget(1 << 20)
	c := &callQueue{serverConn: conn, expiresAt: time.Now().Add(time.Hour), client: conn.(*listen.Conn), peer: &messageWriter{}}
	c.shared = &sharedState{services: &call.Services{Bodies: bodies}, conversations: conversationMemory{bodyMemory: bodies}}
	c.lanes = conversationLanes{memory: &c.shared.conversations, limit: func() int64 { return 1 << 20 }}
	c.shared.createResponse = func(*fasthttp.RequestCtx) { t.Fatal("a call has begun") }
	var messages []*clientMessage
	wait := func() *responseTurn {
		m := &clientMessage{reservation: body.NewReservation(bodies, nil)}
		messages = append(messages, m)
		if !m.grow(100) {
			t.Fatal("no memory")
		}
		return &responseTurn{message: m}
	}
	c.isRunning = true // pretends that a call is running
	if refused := c.enqueue(wait()); refused != nil {
		t.Fatal(refused)
	}
	c.client.MarkClientGone()
	if c.runNext() {
		t.Error("a turn has run")
	}
	if refused := c.enqueue(wait()); refused != nil || c.isRunning {
		t.Errorf("a later message: %v, running: %v", refused, c.isRunning)
	}
	c.endConn()
	for i, m := range messages {
		if m.reservation.ReservedBytes() != 0 {
			t.Errorf("message %d still holds %d bytes", i, m.reservation.ReservedBytes())
		}
	}
}
