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

const initialBufferSize = 4 << 10

var errMessageTooSlow = errors.New("the message came too slowly")

// clientMessage is a client's message. Its bytes count against the memory for bodies. Until the
// call for the message starts, the message counts as an incomplete body of the key.
type clientMessage struct {
	bytes       []byte
	reservation body.Reservation
	waitingKey  *limit.KeyLimiter // key that counts this message as waiting, or nil
}

// grow doubles the capacity, but to at most most+1 bytes. It returns false if no memory is left.
func (m *clientMessage) grow(most int64) bool {
	size := min(max(2*int64(cap(m.bytes)), initialBufferSize), most+1)
	before := m.reservation.ReservedBytes()
	if !m.reservation.Reserve(size) {
		return false
	}
	m.bytes = append(make([]byte, 0, size), m.bytes...)
	m.reservation.ReleaseGarbage(before)
	return true
}

// markCallStarted must be called when the call for the message starts.
func (m *clientMessage) markCallStarted() {
	m.reservation.MarkBodyComplete()
	if m.waitingKey != nil {
		m.waitingKey.StopWaiting()
		m.waitingKey = nil
	}
}

func (m *clientMessage) release() {
	m.reservation.ReleaseGarbage(m.reservation.ReservedBytes())
	m.markCallStarted()
	m.bytes = nil
}

// growMessage enlarges the buffer of a message, or returns an error. If the message must not wait,
// its buffer may not grow beyond its initial size.
func (s *clientSession) growMessage(m *clientMessage, most int64) *apierr.Error {
	if cap(m.bytes) > 0 {
		if refused := s.calls.checkGrowth(m); refused != nil {
			return refused
		}
	}
	if !m.grow(most) {
		return body.MemoryFullError()
	}
	return nil
}

// receive reads a message. It returns an *apierr.Error if the message is too large, if it may not
// wait, or if no memory is left. In the last two cases, receive skips the message.
func (s *clientSession) receive(r io.Reader) (*clientMessage, error) {
	snap := s.shared.services.Current()
	m := &clientMessage{reservation: body.NewReservation(s.shared.services.Bodies, call.IncompleteBodyCounter(snap, s.key))}
	most, rate := s.shared.bodyLimit(s.key), int64(snap.Config.Limits.UploadRate)
	begun, armed := time.Now(), time.Time{}
	defer s.clearReadDeadline()
	received := int64(0)
	var refused *apierr.Error // if not nil, the remainder of the message is skipped
	for {
		now := time.Now()
		if body.IsTooSlow(now.Sub(begun), received, m.reservation.ReservedBytes(), rate) {
			m.release()
			return nil, errMessageTooSlow
		}
		if now.Sub(armed) > time.Second {
			s.setReadDeadline(now)
			armed = now
		}
		if len(m.bytes) == cap(m.bytes) {
			if refused = s.growMessage(m, most); refused != nil {
				m.release()
				m.bytes = make([]byte, 0, initialBufferSize)
			}
		}
		n, err := r.Read(m.bytes[len(m.bytes):cap(m.bytes)])
		received += int64(n)
		if refused == nil {
			m.bytes = m.bytes[:len(m.bytes)+n]
		}
		switch {
		case received > most, errors.Is(err, errAnnouncedTooLarge):
			err = apierr.TooLarge(most)
		case err == nil:
			continue
		case !errors.Is(err, io.EOF):
			err = mapTimeout(err)
		case refused != nil:
			err = refused
		default:
			return m, nil
		}
		m.release()
		return nil, err
	}
}

func mapTimeout(err error) error {
	if body.IsTimeout(err) {
		return errMessageTooSlow
	}
	return err
}

// setReadDeadline sets the read deadline that limits silence within a message.
func (s *clientSession) setReadDeadline(now time.Time) {
	_ = s.serverConn.SetReadDeadline(now.Add(s.shared.services.Current().Config.Timeouts.ClientBody.D()))
}

// clearReadDeadline removes the read deadline, because a client may be silent between messages.
func (s *clientSession) clearReadDeadline() { _ = s.serverConn.SetReadDeadline(time.Time{}) }
