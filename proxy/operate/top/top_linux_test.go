package top

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/tty"
	"penstock/proxy/operate/status"
)

type topSession struct {
	*tty.Terminal
	t     *testing.T
	state atomic.Pointer[status.Status]
	panic atomic.Bool
	stop  context.CancelFunc

	modesBefore string   // the terminal's modes before Run
	ended       chan any // receives the value with which Run panicked, or nil
}

func startTop(t *testing.T, width, height int, colour bool) *topSession {
	t.Helper()
	d := &topSession{Terminal: tty.Open(t, width, height), t: t, ended: make(chan any, 1)}
	d.state.Store(sample(30))
	d.modesBefore = d.Modes()
	ctx, stop := context.WithCancel(t.Context())
	d.stop = stop
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { d.ended <- recover() }()
		err := Run(ctx, Options{
			First: d.state.Load(), In: d.Program, Out: d.Program, Interval: 10 * time.Millisecond, Colour: colour,
			Ask: func() (*status.Status, error) {
				if d.panic.Load() {
					panic("a bug")
				}
				return d.state.Load(), nil
			},
		})
		if err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return d
}

func (d *topSession) waitFor(what string, wanted func(v *tty.View) bool) tty.View {
	d.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		v := d.View()
		if wanted(&v) {
			return v
		}
		if time.Now().After(end) {
			d.t.Fatalf("not on the screen: %s\n%s", what, strings.Join(v.Lines, "\n"))
		}
	}
}

func (d *topSession) waitForText(what ...string) tty.View {
	d.t.Helper()
	return d.waitFor(strings.Join(what, ", "), func(v *tty.View) bool { return showsAll(v, what) })
}

func showsAll(v *tty.View, what []string) bool {
	text := strings.Join(v.Lines, "\n")
	return !slices.ContainsFunc(what, func(w string) bool { return !strings.Contains(text, w) })
}

// waitRestored checks that Run ends and has restored the terminal's modes.
func (d *topSession) waitRestored() (panicked any) {
	d.t.Helper()
	select {
	case panicked = <-d.ended:
	case <-time.After(20 * time.Second):
		d.t.Fatalf("it does not end:\n%s", strings.Join(d.View().Lines, "\n"))
	}
	d.waitFor("what was there before", func(v *tty.View) bool { return !v.Alternate && v.Cursor })
	if now := d.Modes(); now != d.modesBefore {
		d.t.Errorf("the terminal's modes were %s and are %s", d.modesBefore, now)
	}
	return panicked
}

func TestRunEnds(t *testing.T) {
	for name, end := range map[string]func(d *topSession){
		"q":      func(d *topSession) { d.TypeKeys("q") },
		"ctrl-c": func(d *topSession) { d.TypeKeys("\x03") },
		"signal": func(d *topSession) { d.stop() },
		"panic":  func(d *topSession) { d.panic.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			d := startTop(t, 80, 24, true)
			v := d.waitForText("Penstock  Out:", "q quit")
			if d.Modes() == d.modesBefore || !v.Alternate || v.Cursor {
				t.Errorf("the terminal is not the program's: %+v", v)
			}
			end(d)
			if p := d.waitRestored(); (p != nil) != (name == "panic") {
				t.Errorf("it panicked with %v", p)
			} else if p != nil && !strings.Contains(p.(string), "a bug") {
				t.Errorf("it panicked with %v", p)
			}
		})
	}
}

// TestRunKeys checks the effect of typed keys, and that the view is updated unless it is paused.
func TestRunKeys(t *testing.T) {
	d := startTop(t, 100, 24, true)
	d.waitForText("[1 Models 4 (1!)]", "> embed")
	d.TypeKeys("2")
	if v := d.waitForText("[2 Upstreams 30 (1!)]", "> gpu-07"); !v.Colours || v.Wrapped {
		t.Errorf("view = %+v, want colours and no wrapped lines", v)
	}
	d.TypeKeys("\x1b[5~") // page up
	d.TypeKeys(" ")
	d.waitForText("[2 Upstreams", "PAUSED")
	next := sample(30)
	next.InFlight = 77
	d.state.Store(next)
	d.TypeKeys("1")
	if v := d.waitForText("[1 Models"); strings.Contains(strings.Join(v.Lines, "\n"), "77 in flight") {
		t.Error("it is not paused")
	}
	d.TypeKeys(" ")
	d.waitForText("77 in flight")
}

// TestRunResize checks that the screen adapts to a larger and to a smaller window.
func TestRunResize(t *testing.T) {
	d := startTop(t, 80, 24, true)
	d.TypeKeys("2")
	d.waitForText("> gpu-07", "q quit")
	for _, size := range [][2]int{{40, 12}, {150, 50}, {20, 4}, {80, 24}} {
		d.Resize(size[0], size[1])
		// The kernel sends this signal when a terminal is resized.
		if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
			t.Fatal(err)
		}
		want := []string{"Penstock  Out"}
		if size[1] > 4 {
			want = append(want, "> gpu-07", "q quit")
		}
		if size[0] > 100 {
			want = append(want, "ENGINE", "gpu-29")
		}
		d.waitFor("a frame of the new size, whole", func(v *tty.View) bool {
			fits := !v.Wrapped && len(v.Lines) == size[1] // the first frame may still have the old size
			return fits && showsAll(v, want) && (size[1] == 4 || strings.Contains(v.Lines[size[1]-1], "q quit"))
		})
	}
}

func TestRunWithoutColour(t *testing.T) {
	d := startTop(t, 80, 24, false)
	d.TypeKeys("2")
	if v := d.waitForText("> gpu-07"); v.Colours {
		t.Error("there are colours")
	}
}
