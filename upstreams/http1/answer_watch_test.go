package http1

import (
	"sync"
	"testing"
)

// TestAnswerWatchArrivalStamp checks that each observer detects whether there were reads since its
// last call to ArrivalStamp. Between two calls to ArrivalStamp, only one read writes to memory.
func TestAnswerWatchArrivalStamp(t *testing.T) {
	var w AnswerWatch
	one, other := w.ArrivalStamp(), w.ArrivalStamp()
	if one != other {
		t.Fatalf("%d and %d without a read", one, other)
	}
	for range 3 {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 1000 {
					w.RecordBytes(200, []byte("x"))
				}
			})
		}
		wg.Wait()
		if got := w.state.Load(); got != one+1 {
			t.Fatalf("4000 reads have written %d times", got-one)
		}
		before := one
		one = w.ArrivalStamp()
		if one == before || w.ArrivalStamp() != one {
			t.Fatalf("%d after reads, %d without more, %d before", one, w.ArrivalStamp(), before)
		}
	}
	if w.ArrivalStamp() == other {
		t.Error("who looks later sees no reads, because another one has looked")
	}
}

// TestAnswerWatchRaced checks that no read is missed if ArrivalStamp is called concurrently.
func TestAnswerWatchRaced(t *testing.T) {
	var w AnswerWatch
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 5000 {
				w.ArrivalStamp()
			}
		})
		wg.Go(func() {
			for range 5000 {
				before := w.ArrivalStamp()
				w.RecordBytes(200, []byte("x"))
				if w.ArrivalStamp() == before {
					t.Error("a read is lost")
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkAnswerWatch records reads from one upstream on every core.
func BenchmarkAnswerWatch(b *testing.B) {
	var w AnswerWatch
	p := []byte("x")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			w.RecordBytes(200, p)
		}
	})
}
