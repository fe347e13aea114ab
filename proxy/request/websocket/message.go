package websocket

import (
	"errors"
	"io"
	"time"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/body"
	"penstock/proxy/request/call"
	"penstock/translate/apierr"
)

const firstPiece = 4 << 10

var errSlow = errors.New("the message came too slowly")

// message is a client's message. Its bytes count against the memory for bodies. Until the call for
// the message starts, the message counts as an incomplete body of the key.
type message struct {
	bytes   []byte
	memory  body.Reservation
	waiting *limit.Key // key that counts this message as waiting, or nil
}

// grow doubles the capacity, up to most+1 bytes. It returns false if no memory is left.
func (m *message) grow(most int64) bool {
	size := min(max(2*int64(cap(m.bytes)), firstPiece), most+1)
	before := m.memory.Held()
	if !m.memory.Reserve(size) {
		return false
	}
	m.bytes = append(make([]byte, 0, size), m.bytes...)
	m.memory.Discard(before)
	return true
}

// begin must be called when the call for the message starts.
func (m *message) begin() {
	m.memory.Complete()
	if m.waiting != nil {
		m.waiting.StopWaiting()
		m.waiting = nil
	}
}

func (m *message) release() {
	m.memory.Discard(m.memory.Held())
	m.begin()
	m.bytes = nil
}

// room makes room for more bytes of a message, or returns an error. A message may grow beyond its
// first piece only if the message may wait.
func (s *session) room(m *message, most int64) *apierr.Error {
	if cap(m.bytes) > 0 {
		if refused := s.calls.keep(m); refused != nil {
			return refused
		}
	}
	if !m.grow(most) {
		return body.MemoryFull()
	}
	return nil
}

// receive reads a message. It returns an *apierr.Error if the message is too large, if it may not
// wait, or if no memory is left. In the last two cases, receive has skipped the message.
func (s *session) receive(r io.Reader) (*message, error) {
	snap := s.terms.services.Current()
	m := &message{memory: body.NewReservation(s.terms.services.Bodies, call.ReadingOf(snap, s.key))}
	most, rate := s.terms.bodyLimit(s.key), int64(snap.Config.Limits.UploadRate)
	begun, armed := time.Now(), time.Time{}
	defer s.disarm()
	received := int64(0)
	var refused *apierr.Error // if not nil, the remainder of the message is skipped
	for {
		now := time.Now()
		if body.Drips(now.Sub(begun), received, m.memory.Held(), rate) {
			m.release()
			return nil, errSlow
		}
		if now.Sub(armed) > time.Second {
			s.arm(now)
			armed = now
		}
		if len(m.bytes) == cap(m.bytes) {
			if refused = s.room(m, most); refused != nil {
				m.release()
				m.bytes = make([]byte, 0, firstPiece)
			}
		}
		n, err := r.Read(m.bytes[len(m.bytes):cap(m.bytes)])
		received += int64(n)
		if refused == nil {
			m.bytes = m.bytes[:len(m.bytes)+n]
		}
		switch {
		case received > most, errors.Is(err, errAnnounced):
			err = apierr.TooLarge(most)
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			err = slowOr(err)
		case refused != nil:
			err = refused
		default:
			return m, nil
		}
		m.release()
		return nil, err
	}
}

func slowOr(err error) error {
	if body.TimedOut(err) {
		return errSlow
	}
	return err
}

// arm sets the read deadline that limits silence within a message.
func (s *session) arm(now time.Time) {
	_ = s.raw.SetReadDeadline(now.Add(s.terms.services.Current().Config.Timeouts.ClientBody.D()))
}

// disarm removes the read deadline, because a client may be silent between messages.
func (s *session) disarm() { _ = s.raw.SetReadDeadline(time.Time{}) }
