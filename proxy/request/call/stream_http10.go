package call

import (
	"net"
	"slices"
	"time"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
)

// http10Stream is a committed stream to an HTTP/1.0 client, such as nginx with proxy_pass and no
// proxy_http_version. HTTP/1.0 has no chunks: the answer ends with the connection (RFC 9112, 6.3),
// and a client cannot tell a broken connection from the end. A stream that fails therefore ends
// with its dialect's error. If the dialect has no error for a stream, the connection is reset.
//
// fasthttp would write chunks to a client of any version. The edge therefore hijacks the connection
// and writes the stream itself. Until takeConn returns, fasthttp keeps the connection (TLS or not)
// and the unread part of a form.
type http10Stream struct {
	relay
	conn net.Conn
	head []byte // the answer's head; goes out with the first bytes
}

// hijackHTTP10 makes fasthttp hand over the connection for r once the handler has returned.
func hijackHTTP10(r relay) {
	c := r.call
	s := &http10Stream{relay: r, conn: c.client.ctx.Conn()}
	c.relay = &s.relay
	c.client.ctx.HijackSetNoResponse(true)
	c.client.ctx.Hijack(s.takeConn)
}

// takeConn writes the stream. When it returns, fasthttp closes the connection.
func (s *http10Stream) takeConn(net.Conn) {
	c := s.call
	defer c.shared.Guard.Catch(guard.Stream, func() {
		listen.Reset(s.conn)
		if s.call != nil {
			defer s.relay.Close() //nolint:errcheck // it has none to give
			s.call.fail(failure.Internal(failure.ErrPanicked))
		}
	})
	c.shared.Guard.Point("stream.http10")
	if c.ep.Form { // fasthttp has lifted the deadline, and the rest of the form may be missing
		_ = s.conn.SetReadDeadline(time.Now().Add(c.config.snapshot.Config.Timeouts.ClientBody.D()))
	}
	h := &c.client.ctx.Response.Header
	h.SetContentLength(-2) // the body ends with the connection
	h.SetConnectionClose()
	s.head = h.AppendBytes(make([]byte, 0, 512))
	if _, err := s.run(s); err != nil {
		listen.Reset(s.conn)
	}
	_ = s.relay.Close()
}

// write implements chunkWriter.
func (s *http10Stream) write(out *[]byte, _ bool) (int, error) {
	payload, before := (*out)[chunkRoom:], len(s.head)
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
