package faults

import (
	"testing"
)

// TestHarness: a good answer in every way, from the built program.
func TestHarness(t *testing.T) {
	t.Parallel()
	inWays(t, allWays, setup{}, func(e *edge, w way) {
		if text := e.ask(w, `"text":"Good."`).text(w); text != "Good." {
			e.t.Errorf("the answer is %q", text)
		}
		if l := e.lastCall(); l.Status != 200 || l.Outcome != "ok" || l.Attempts != 1 || l.Dialect != w.dialect {
			e.t.Errorf("the log says %+v", l)
		}
	})
}

// TestHarnessFake: a fake engine with the shortest script is a good engine.
func TestHarnessFake(t *testing.T) {
	t.Parallel()
	for _, w := range allWays {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			f := fake(t, func(c *fakeCall) { c.answer() })
			e := start(t, setup{fakes: []string{f.url}})
			for range 2 {
				if text := e.ask(w, "").text(w); text != "Good." {
					t.Errorf("the answer is %q", text)
				}
			}
			if n, _ := f.seen(); n != 2 {
				t.Errorf("the engine saw %d calls", n)
			}
		})
	}
}
