package call

import (
	"net"
	"slices"
	"time"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
)

// http10Stream is a committed stream to an HTTP/1.0 client. nginx is such a client if proxy_pass is
// used without proxy_http_version. HTTP/1.0 has no chunks. The body ends when the connection closes
// (RFC 9112, 6.3). A client therefore cannot distinguish a failure from the end of the stream. For
// this reason, a failed stream ends with an error event in the client's dialect. If the format of
// the stream cannot contain errors, the connection is reset.
//
// fasthttp always writes chunks, even to HTTP/1.0 clients, so the edge hijacks the connection and
// writes the stream itself. Until takeConn returns, fasthttp keeps the connection open and lets the
// edge read the remaining bytes of a form.
type http10Stream struct {
	relay
	conn net.Conn
	head []byte // response headers, written with the first bytes
}

func hijackHTTP10(r relay) {
	c := r.call
	s := &http10Stream{relay: r, conn: c.client.ctx.Conn()}
	c.relay = &s.relay
	c.client.ctx.HijackSetNoResponse(true)
	c.client.ctx.Hijack(s.takeConn)
}

// takeConn writes the stream. fasthttp closes the connection when takeConn returns.
func (s *http10Stream) takeConn(net.Conn) {
	c := s.call
	defer c.services.Guard.Catch(guard.PlaceStream, func() {
		listen.ResetConn(s.conn)
		if s.call != nil {
			defer s.relay.Close() //nolint:errcheck // it never returns an error
			recordCallFailure(&s.call.record, failure.Internal(failure.ErrPanicked))
		}
	})
	c.services.Guard.PanicIfInjected("stream.http10")
	if c.ep.Form { // fasthttp has cleared the deadline, but a form may still be arriving
		_ = s.conn.SetReadDeadline(time.Now().Add(c.config.snapshot.Config.Timeouts.ClientBody.D()))
	}
	h := &c.client.ctx.Response.Header
	h.SetContentLength(-2) // the body ends when the connection closes
	h.SetConnectionClose()
	s.head = h.AppendBytes(make([]byte, 0, 512))
	if _, err := s.writeBody(s); err != nil {
		listen.ResetConn(s.conn)
	}
	_ = s.relay.Close()
}

func (s *http10Stream) writeChunk(out *[]byte, _ bool) (int, error) {
	payload, before := (*out)[chunkPrefixLen:], len(s.head)
	b := payload
	if len(s.head) > 0 {
		b, s.head = slices.Concat(s.head, payload), nil
	}
	if len(b) == 0 {
		return 0, nil
	}
	if n, err := s.conn.Write(b); err != nil {
		return max(n-before, 0), err
	}
	return len(payload), nil
}
