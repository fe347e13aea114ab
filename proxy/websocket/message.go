package websocket

import (
	"errors"
	"io"
	"time"

	"penstock/proxy/body"
	"penstock/proxy/limit"
)

const (
	// firstPiece is what is reserved for a message before its size is known.
	firstPiece = 4 << 10
	// slowMessage is the rate in bytes per second that a message must keep after its first slowGrace.
	slowMessage = 1 << 10
	slowGrace   = 10 * time.Second
)

// errSlow ends the reading of a message that drips.
var errSlow = errors.New("the message came too slowly")

// message is what a client has sent, reserved in the memory of bodies.
type message struct {
	bytes    []byte
	budget   *limit.Memory
	reserved int64
}

// grow makes room for more bytes, as many as there are already.
func (m *message) grow() bool {
	size := max(2*cap(m.bytes), firstPiece)
	if !m.budget.Reserve(int64(size)) {
		return false
	}
	m.bytes = append(make([]byte, 0, size), m.bytes...)
	m.budget.Discard(m.reserved)
	m.reserved = int64(size)
	return true
}

// release gives the message's memory back.
func (m *message) release() {
	m.budget.Discard(m.reserved)
	m.bytes, m.reserved = nil, 0
}

// receive reads a message to its end. The error is an *apierr.Error if there is no memory for it:
// it has been skipped then.
func (s *session) receive(r io.Reader) (*message, error) {
	m := &message{budget: s.terms.services.Bodies}
	begun, armed := time.Now(), time.Time{}
	defer s.disarm()
	for {
		now := time.Now()
		if late := now.Sub(begun) - slowGrace; late > 0 && len(m.bytes) < int(late.Seconds())*slowMessage {
			m.release()
			return nil, errSlow
		}
		if now.Sub(armed) > time.Second {
			s.arm(now)
			armed = now
		}
		if len(m.bytes) == cap(m.bytes) && !m.grow() {
			m.release()
			if _, err := io.Copy(io.Discard, r); err != nil {
				return nil, slowOr(err)
			}
			return nil, body.MemoryFull()
		}
		n, err := r.Read(m.bytes[len(m.bytes):cap(m.bytes)])
		m.bytes = m.bytes[:len(m.bytes)+n]
		if err != nil && err != io.EOF {
			m.release()
			return nil, slowOr(err)
		}
		if err != nil {
			return m, nil
		}
	}
}

// slowOr is errSlow for an error that a deadline has caused.
func slowOr(err error) error {
	if body.TimedOut(err) {
		return errSlow
	}
	return err
}

// arm gives the client the time that it has for silence within a message.
func (s *session) arm(now time.Time) {
	_ = s.raw.SetReadDeadline(now.Add(s.terms.services.Current().Config.Timeouts.ClientBody.D()))
}

// disarm ends that: between messages a client may be silent.
func (s *session) disarm() { _ = s.raw.SetReadDeadline(time.Time{}) }
