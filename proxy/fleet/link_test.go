package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/config"
)

// TestStream checks that a stream can be read starting after any entry, and that it is trimmed to
// about the requested length. Reading the stream must return nothing before the first entry is
// added.
func TestStream(t *testing.T) {
	server := miniredis.RunT(t)
	l := &Link{remote: startRemote(t, server.Addr())}
	if _, _, err := l.Read(t.Context(), "r:a", "0", 10); err == nil || l.AppendToStream(t.Context(), "r:a", 10, nil) == nil {
		t.Error("something was said before the first heartbeat")
	}
	if err := beat(t, l.remote); err != nil {
		t.Fatal(err)
	}
	ctx, last := context.Background(), "0"
	read := func(want ...string) {
		t.Helper()
		entries, to, err := l.Read(ctx, "r:a", last, 2)
		if err != nil || fmt.Sprintf("%s", entries) != fmt.Sprint(want) {
			t.Fatalf("%q, %v; want %q", entries, err, want)
		}
		last = to
	}
	read()
	for _, entry := range []string{"one\x00", "two", "three"} {
		if err := l.AppendToStream(ctx, "r:a", 100, []byte(entry)); err != nil {
			t.Fatal(err)
		}
	}
	read("one\x00", "two")
	read("three")
	read()
	for range 50 {
		if err := l.AppendToStream(ctx, "r:a", 10, []byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	if entries, _, err := l.Read(ctx, "r:a", "0", 1000); err != nil || len(entries) > 20 {
		t.Errorf("Read = %d entries, %v; want at most 20", len(entries), err)
	}
	server.SetError("LOADING the data set")
	for range failuresToOpen {
		_, _, _ = l.Read(ctx, "r:a", "0", 1)
	}
	if l.Available() {
		t.Error("three failures in a row, and the breaker is closed")
	}
}

// TestSlots checks that the fleet never uses more slots than an upstream has. The slots of a dead
// edge must become free once its lease has expired. While the store is lost, each edge must use
// only its share.
func TestSlots(t *testing.T) {
	w := newWorld(2, config.KeyLimits{}, config.StoreLostDivide)
	waited, wake := func() bool { return false }, func() {}
	slots := []*Slots{NewSlots(w.edges[0], "e", waited, wake), NewSlots(w.edges[1], "e", waited, wake)}
	all := func(i int) (n int) {
		for slots[i].AcquireSlot(4, w.now) {
			n++
		}
		return n
	}
	if a, b := all(0), all(1); a != 4 || b != 0 {
		t.Fatalf("%d and %d of 4 slots", a, b)
	}
	slots[0].ReleaseSlot()
	w.advance(time.Millisecond)
	if n := all(1); n != 1 {
		t.Fatalf("%d of the one that came free", n)
	}
	w.lines[0].cut = true // simulates the death of edge 0
	w.advance(leaseTime + time.Second)
	if n := all(1); n != 3 {
		t.Errorf("%d slots of the dead edge came back", n)
	}
	for range 4 {
		slots[1].ReleaseSlot()
	}
	w.lines[1].cut = true
	w.advance(leaseTime)
	if n := all(1); n != 2 {
		t.Errorf("%d slots without the store, want half", n)
	}
}
