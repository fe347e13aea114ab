package instant

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, now := time.Now(), Now()
		if !now.StdTime().Equal(start) || FromTime(start) != now {
			t.Errorf("%v is %v and %v", start, now, now.StdTime())
		}
		if later := now.Add(time.Second); later.HasPassed() || later.Sub(now) != time.Second {
			t.Errorf("a second after %[2]v: got %[1]v, want a time that has not passed", later, now)
		}
		time.Sleep(time.Second)
		if !now.Add(time.Second).HasPassed() || now.Add(time.Second+1).HasPassed() {
			t.Error("a deadline passes at its time")
		}
	})
}

func TestZeroTime(t *testing.T) {
	var none Time
	if FromTime(time.Time{}) != none || !none.StdTime().IsZero() || none.HasPassed() {
		t.Error("none is a time")
	}
	now := Now()
	if now.Sub(none) < 24*time.Hour {
		t.Error("none is not long ago")
	}
	for _, c := range [][3]Time{{none, none, none}, {now, none, now}, {none, now, now}, {now, now + 1, now}, {now + 1, now, now}} {
		if got := Earlier(c[0], c[1]); got != c[2] {
			t.Errorf("of %v and %v the earlier is %v", c[0], c[1], got)
		}
	}
}
