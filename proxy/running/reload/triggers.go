package reload

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"penstock/config/filewatch"
	"penstock/proxy/telemetry/guard"
)

// Trigger requests a reload and returns at once. A trigger is merged with another trigger that is
// still waiting. A trigger after the files were read causes another reload, so the newest file is
// always read. Any goroutine may call Trigger.
func (r *Reloader) Trigger(source string) {
	waiting := r.triggers
	if o := ofSetFor(r, source); o != nil { // a reload that reads no file cannot replace one that does
		waiting = o.triggers
	}
	select {
	case waiting <- source:
	default: // the reload of the waiting trigger will read the same files
	}
}

// Run handles triggers until ctx ends. Each reload has its own goroutine, because a file's keys
// must not wait for another reload that waits for names or engines. Run takes the next trigger once
// the previous reload starts to read the files. So at most one reload waits for the files, no
// matter how many signals there are.
func (r *Reloader) Run(ctx context.Context) {
	for {
		select {
		case source := <-r.triggers:
			reads := make(chan struct{})
			begins := sync.OnceFunc(func() { close(reads) })
			r.start(Request{Source: source, onRead: func() {
				select {
				// this trigger precedes the reading of the files, so this reload covers it
				case <-r.triggers:
				default:
				}
				begins()
			}}, begins)
			<-reads
		case source := <-r.addresses.triggers:
			startOfSet(r, source)
		case source := <-r.models.triggers:
			startOfSet(r, source)
		case <-ctx.Done():
			return
		}
	}
}

// startOfSet starts a reload that reads no file, unless such a reload is already waiting.
func startOfSet(r *Reloader, source string) {
	o := ofSetFor(r, source)
	if o.awaited.Swap(true) { // otherwise frequent triggers would accumulate
		return
	}
	begins := sync.OnceFunc(func() { o.awaited.Store(false) })
	r.start(Request{Source: source, onRead: begins}, begins)
}

// start runs one reload in a goroutine, and calls ended after the reload, even if it panics.
func (r *Reloader) start(q Request, ended func()) {
	go r.opts.Guard.Once(guard.Reload, func() {
		defer ended()
		r.Reload(q)
	})
}

// watchInterval is how often files are checked when no event reports a change. A file that is
// mounted individually has no events, but its keys must also take effect within a second.
const watchInterval = 500 * time.Millisecond

// OnChange triggers a reload on SIGHUP and, with `watch`, when one of the configuration's files
// changes, until stop is called.
func (r *Reloader) OnChange(ctx context.Context) (stop func()) {
	g := r.opts.Guard
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	w := &filewatch.Watcher{
		Paths: func() []string {
			g.Point(guard.Files)
			return r.Running().Config.Paths()
		},
		OnChange: func() {
			if r.Running().Config.Watch {
				r.Trigger(sourceFile)
			}
		},
		Interval: watchInterval,
	}
	w.Prime()
	go g.Loop(ctx.Done(), guard.Files, func() { w.Run(ctx) })
	go g.Loop(ctx.Done(), guard.Reload, func() {
		for {
			select {
			case <-hangup:
				g.Point("reload.signal")
				r.Trigger(sourceSignal)
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		signal.Stop(hangup)
		cancel()
	}
}
