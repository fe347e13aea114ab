package sim

import (
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

func (x *exchange) setFaults(f *fault.Effects) {
	x.e.counters.faults.Add(1)
	x.t = *f
}

// acceptFault injects a fault into a newly accepted connection. It reports whether the fault ended
// the connection.
func (c *conn) acceptFault() bool {
	f := c.e.faults.ForConnection()
	if f == nil {
		return false
	}
	c.e.counters.faults.Add(1)
	if f.Accept == fault.AcceptReset {
		c.reset()
		return true
	}
	if tc, ok := c.nc.(*net.TCPConn); ok {
		_ = tc.SetReadBuffer(4096)
	}
	<-c.ended // the connection stays open and unread until the engine closes it
	return true
}

// refuseEarly answers before the body is read. It runs in the reader's goroutine.
func refuseEarly(x *exchange) {
	x.closing = true
	x.e.counters.rejected.Add(1)
	x.replyError(profile.APIError{Status: 413, Message: fault.StatusText(413)})
	if tc, ok := x.c.nc.(*net.TCPConn); ok && x.t.Linger {
		_ = tc.CloseWrite()
		_ = tc.SetReadDeadline(time.Now().Add(2 * time.Second))
		_, _ = io.Copy(io.Discard, tc)
	}
	x.c.close()
}

// idlePollInterval is how often a page that must wait until the engine is idle checks whether it
// is.
const idlePollInterval = 5 * time.Millisecond

// injectResponseFault injects the fault that replaces the response, if there is one, and reports
// whether there was such a fault.
func (x *exchange) injectResponseFault() bool {
	t := &x.t
	if d := t.Delay; d > 0 {
		t.Delay = 0
		if !x.client.pause(d) {
			return true
		}
	}
	for t.AwaitIdle {
		if running, _, _ := x.e.slots.RequestCounts(); running == 0 {
			break
		}
		if !x.client.pause(idlePollInterval) {
			return true
		}
	}
	if t.Wedge > 0 {
		x.e.slowdown.stall(t.Wedge)
	}
	switch {
	case t.Early: // the fault was requested in the body, so it cannot take effect earlier
		refuseEarly(x)
		x.out.broken = true
	case t.ReplacementSteps != nil:
		x.performSteps(t.ReplacementSteps)
	default:
		return false
	}
	return true
}

// injectIncidents injects the incidents that are due before the next event. It returns false if the
// stream has ended.
func (x *exchange) injectIncidents() bool {
	for i := range x.t.Incidents {
		if in := &x.t.Incidents[i]; in.At == x.stream.events {
			x.stream.shareChunk(false)
			if !x.injectIncident(in) {
				return false
			}
		}
	}
	return !x.out.isEnded()
}

// injectIncident injects an incident into a response. It reports whether the response continues.
func (x *exchange) injectIncident(in *fault.Incident) bool {
	if x.out.isEnded() {
		return false
	}
	x.performSteps(in.Steps)
	if in.GoOn && !x.out.isEnded() {
		return true
	}
	x.out.broken = x.out.broken || !x.finished
	return false
}

func (x *exchange) performSteps(steps []fault.Step) {
	w := &x.out
	for _, s := range steps {
		switch s.Op {
		case fault.OpSendRawAndEnd:
			w.out = append(w.out, s.Text...)
			w.flush()
			w.broken = true
		case fault.OpFlush:
			w.flush()
		case fault.OpWait:
			x.client.pause(s.For)
		case fault.OpReset:
			w.broken = true
			x.c.reset()
		case fault.OpClose:
			w.flush()
			w.broken = true
			x.c.close()
		case fault.OpHang:
			for w.flush() && s.For > 0 && x.client.pause(s.For) {
				x.stream.appendComment()
			}
			if w.broken = true; !x.client.lost {
				x.client.waitUntilLeft()
			}
		case fault.OpFreeSlot:
			x.freeSlot()
		case fault.OpGenerateSilently:
			countSilentTokens(x, s.For)
		case fault.OpReply:
			x.t.Lines = strings.ReplaceAll(x.t.Lines, "{url}", x.e.URL())
			x.reply(s.Status, strings.Replace(s.Type, "json", x.p.JSONType, 1), []byte(s.Text))
		case fault.OpError:
			x.replyError(profile.APIError{Status: s.Status, Message: s.Message(), Kind: s.Type})
		case fault.OpPage:
			x.reply(s.Status, "text/html", []byte(fault.HTMLPage(s.Status)))
		case fault.OpNoContent:
			x.status, w.headWritten, x.closing = 204, true, !x.req.keepAlive
			w.out = append(w.out, "HTTP/1.1 204 No Content\r\n\r\n"...)
			x.flushEnd()
		case fault.OpHead:
			x.buildHead(200, x.p.JSONType, -1)
		case fault.OpBody:
			w.appendBody([]byte(s.Text))
		case fault.OpRepeat:
			if w.repeatUntilClosed([]byte(strings.Repeat(s.Text, s.N))); !x.client.lost {
				x.c.close()
			}
			w.broken = true
		case fault.OpZipBomb:
			sendZipBomb(x, s.N)
		case fault.OpEvent:
			for range max(1, s.N) {
				x.stream.appendEvent(x.stream.name, []byte(s.Text))
			}
		case fault.OpContent:
			if x.stream.content != nil {
				x.stream.appendEvent(x.stream.name, x.stream.content(strings.Repeat("w", s.N)))
			}
		case fault.OpStreamEnd:
			x.sendStreamError(profile.APIError{Status: s.Status, Message: s.Message()}, s.N == 1 || s.N < 0 && x.p.ErrorDone)
		case fault.OpFinish:
			x.finishBody()
		}
	}
}

// applyBodyFault returns the body as changed by the fault.
func applyBodyFault(x *exchange, body []byte) []byte {
	switch s := x.t.Plain; {
	case s == nil:
		return body
	case s.Op == fault.OpHalfBody:
		return body[:len(body)/2]
	case s.Op == fault.OpError:
		return x.e.pages.StreamErrorData(profile.APIError{Status: s.Status, Message: s.Message()})
	default:
		return []byte(s.Text)
	}
}

// bufferedTokenTime is how long it takes to generate a token while nothing is sent.
const bufferedTokenTime = 50 * time.Millisecond

// countSilentTokens advances the counters for the duration d while nothing is sent.
func countSilentTokens(x *exchange, d time.Duration) {
	for end := time.Now().Add(d); time.Until(end) > 0; x.e.counters.steps.Add(1) {
		if !x.out.flush() || !x.client.pause(min(bufferedTokenTime, time.Until(end))) || !x.e.slowdown.waitStall(&x.out) {
			return
		}
	}
}

// sendStreamError sends an error event and, if done is set, [DONE]. Then it ends the stream
// properly.
func (x *exchange) sendStreamError(a profile.APIError, done bool) {
	x.stream.appendEvent(x.p.ErrorEvent, x.e.pages.StreamErrorData(a))
	if done {
		x.stream.appendEvent("", wire.DoneData)
	}
	x.finishBody()
}

// sendZipBomb sends mb megabytes of zeros, compressed, inside a JSON object that starts correctly.
func sendZipBomb(x *exchange, mb int) {
	x.out.gz, x.encoding = gzip.NewWriter(&x.out.gzOut), "gzip"
	x.buildHead(http.StatusOK, "application/json", -1)
	x.out.appendBody([]byte(`{"id":"`))
	zeros := make([]byte, 1<<20)
	for range mb {
		if x.out.appendBody(zeros); x.client.hasLeft() || !x.out.flush() {
			return
		}
	}
	x.finishBody()
}
