package top

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"penstock/proxy/operate/status"
)

// Options configure Run.
type Options struct {
	Ask      func() (*status.Status, error)
	First    *status.Status
	In, Out  *os.File // the terminal; keys are read only if In is a terminal
	Interval time.Duration
	Colour   bool
}

// Run shows the edge until ctx ends or the user quits. If a request fails, Run shows the error on
// the screen.
func Run(ctx context.Context, o Options) error {
	s, err := openScreen(o.In, o.Out)
	if err != nil {
		return err
	}
	defer s.close()
	typed := make(chan []byte)
	done := make(chan struct{})
	defer close(done)
	if s.keys {
		go readKeys(o.In, typed, done)
	}
	l := loop{Options: o, screen: s, view: newView(o.First), answers: make(chan answer, 1)}
	return l.run(ctx, typed)
}

// readKeys sends typed keys until done is closed. If the file does not support deadlines, the last
// read may block until the process exits.
func readKeys(in *os.File, typed chan<- []byte, done <-chan struct{}) {
	for {
		b := make([]byte, 256)
		n, err := in.Read(b)
		if err != nil {
			return
		}
		select {
		case typed <- b[:n]:
		case <-done:
			return
		}
	}
}

type answer struct {
	state    *status.Status
	err      error
	panicked string
}

type loop struct {
	Options
	screen  *screen
	view    *view
	answers chan answer
	asking  bool
}

func (l *loop) run(ctx context.Context, typed <-chan []byte) error {
	tick := time.NewTicker(l.Interval)
	defer tick.Stop()
	for {
		if err := l.screen.draw(l.view.frame, l.Colour); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.screen.resized:
		case <-tick.C:
			l.ask()
		case a := <-l.answers:
			l.take(a)
		case b := <-typed:
			if l.view.press(b) {
				return nil
			}
		}
	}
}

// ask queries the edge, unless a request is pending or the view is paused.
func (l *loop) ask() {
	if l.asking || l.view.paused {
		return
	}
	l.asking = true
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			l.answers <- a
		}()
		a.state, a.err = l.Ask()
	}()
}

func (l *loop) take(a answer) {
	l.asking = false
	if a.panicked != "" {
		panic(a.panicked)
	}
	l.view.show(a.state, a.err)
}
