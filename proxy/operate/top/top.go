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
	if s.readsKeys {
		go readKeys(o.In, typed, done)
	}
	l := loop{Options: o, screen: s, view: newView(o.First), results: make(chan pollResult, 1)}
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

type pollResult struct {
	state     *status.Status
	err       error
	panicText string
}

type loop struct {
	Options
	screen         *screen
	view           *view
	results        chan pollResult
	requestPending bool
}

func (l *loop) run(ctx context.Context, typed <-chan []byte) error {
	tick := time.NewTicker(l.Interval)
	defer tick.Stop()
	for {
		if err := l.screen.draw(l.view.renderFrame, l.Colour); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-l.screen.resized:
		case <-tick.C:
			l.queryEdge()
		case a := <-l.results:
			l.handleResult(a)
		case b := <-typed:
			if l.view.handleKeys(b) {
				return nil
			}
		}
	}
}

// queryEdge queries the edge, unless a request is pending or the view is paused.
func (l *loop) queryEdge() {
	if l.requestPending || l.view.paused {
		return
	}
	l.requestPending = true
	go func() {
		var a pollResult
		defer func() {
			if p := recover(); p != nil {
				a.panicText = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			l.results <- a
		}()
		a.state, a.err = l.Ask()
	}()
}

func (l *loop) handleResult(a pollResult) {
	l.requestPending = false
	if a.panicText != "" {
		panic(a.panicText)
	}
	l.view.setState(a.state, a.err)
}
