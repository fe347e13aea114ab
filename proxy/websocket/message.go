package websocket

import (
	"errors"
	"io"
	"time"

	"penstock/proxy/body"
	"penstock/proxy/limit"
	"penstock/translate/apierr"
)

// firstPiece is what is reserved for a message before its size is known.
const firstPiece = 4 << 10

// errSlow ends the reading of a message that drips.
var errSlow = errors.New("the message came too slowly")

// message is what a client has sent, reserved in the memory of bodies.
type message struct {
	bytes    []byte
	budget   *limit.Memory
	reserved int64
}

// grow makes room for more bytes, as many as there are already, up to the first one above most.
func (m *message) grow(most int64) bool {
	size := min(max(2*int64(cap(m.bytes)), firstPiece), most+1)
	if !m.budget.Reserve(size) {
		return false
	}
	m.bytes = append(make([]byte, 0, size), m.bytes...)
	m.budget.Discard(m.reserved)
	m.reserved = size
	return true
}

// release gives the message's memory back.
func (m *message) release() {
	m.budget.Discard(m.reserved)
	m.bytes, m.reserved = nil, 0
}

// receive reads a message to its end, or to where it is too large. The error is an *apierr.Error
// for that, and if there is no memory for it: it has been skipped then.
func (s *session) receive(r io.Reader) (*message, error) {
	m := &message{budget: s.terms.services.Bodies}
	most, rate := s.terms.bodyLimit(), int64(s.terms.services.Current().Config.Limits.UploadRate)
	begun, armed := time.Now(), time.Time{}
	defer s.disarm()
	came, full := int64(0), false
	for {
		now := time.Now()
		if body.Drips(now.Sub(begun), came, m.reserved, rate) {
			m.release()
			return nil, errSlow
		}
		if now.Sub(armed) > time.Second {
			s.arm(now)
			armed = now
		}
		if len(m.bytes) == cap(m.bytes) && !m.grow(most) {
			m.release()
			m.bytes, full = make([]byte, 0, firstPiece), true
		}
		n, err := r.Read(m.bytes[len(m.bytes):cap(m.bytes)])
		came += int64(n)
		if !full {
			m.bytes = m.bytes[:len(m.bytes)+n]
		}
		switch {
		case came > most, errors.Is(err, errAnnounced):
			err = apierr.TooLarge(most)
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			err = slowOr(err)
		case full:
			err = body.MemoryFull()
		default:
			return m, nil
		}
		m.release()
		return nil, err
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
