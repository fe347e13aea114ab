package http1

import (
	"sync"
	"testing"
)

// TestAnswerWatchArrivalStamp checks that each observer detects whether there were reads since its
// last call to ArrivalNumber. Between two calls to ArrivalNumber, only one read writes to memory.
func TestAnswerWatchArrivalStamp(t *testing.T) {
	var w AnswerWatch
	one, other := w.ArrivalNumber(), w.ArrivalNumber()
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
		one = w.ArrivalNumber()
		if one == before || w.ArrivalNumber() != one {
			t.Fatalf("%d after reads, %d without more, %d before", one, w.ArrivalNumber(), before)
		}
	}
	if w.ArrivalNumber() == other {
		t.Error("who looks later sees no reads, because another one has looked")
	}
}

// TestAnswerWatchRaced checks that no read is missed if ArrivalNumber is called concurrently.
func TestAnswerWatchRaced(t *testing.T) {
	var w AnswerWatch
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 5000 {
				w.ArrivalNumber()
			}
		})
		wg.Go(func() {
			for range 5000 {
				before := w.ArrivalNumber()
				w.RecordBytes(200, []byte("x"))
				if w.ArrivalNumber() == before {
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
