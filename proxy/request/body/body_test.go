package body

import (
	"errors"
	"testing"

	"penstock/proxy/access/limit"
	"penstock/translate/apierr"
)

// TestTranslate checks that memory is reserved before a translation is written, even if the
// translation is longer than the body.
func TestTranslate(t *testing.T) {
	const size = 100 << 10
	for _, c := range []struct {
		name    string
		budget  int64
		out     int
		fails   error
		written bool
		full    bool
		held    int64 // bytes reserved afterwards, not counting the reservation for the body
	}{
		{"no room", size + size/2, size, nil, false, true, 0},
		{"room", 3 * size, size / 2, nil, true, false, size / 2},
		{"larger than the body", 4 * size, 2 * size, nil, true, false, 2 * size},
		{"larger than the memory", 5 * size / 2, 2 * size, nil, true, true, size + translationHeadroom},
		{"no request", 3 * size, 0, errors.New("no request"), true, false, size + translationHeadroom},
	} {
		body := make([]byte, size)
		var b Body
		budget := limit.NewMemoryBudget(c.budget)
		b.Reset(budget)
		b.client = &body
		if !b.reservation.Reserve(size) {
			t.Fatal("no room for the body")
		}
		written := false
		err := b.Translate(func(dst []byte) ([]byte, error) {
			written = true
			if used := budget.UsedBytes(); used < 2*size {
				t.Errorf("%s: written with %d reserved", c.name, used)
			}
			return append(dst, make([]byte, c.out)...), c.fails
		})
		var a *apierr.Error
		if full := errors.As(err, &a) && a.Code == CodeNoMemory; written != c.written || full != c.full || (err == nil) != (b.translated != nil) {
			t.Errorf("%s: wrote %v, error %v, want written %v and full %v", c.name, written, err, c.written, c.full)
		}
		if held := budget.UsedBytes() - size; held != c.held || b.reservation.reserved != size+held {
			t.Errorf("%s: %d reserved, the call says %d", c.name, held, b.reservation.reserved)
		}
		b.Release()
		if used := budget.UsedBytes(); used != 0 {
			t.Errorf("%s: %d are left", c.name, used)
		}
	}
}
