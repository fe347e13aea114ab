package reload

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"penstock/config/filewatch"
	"penstock/proxy/guard"
)

// Trigger asks for a reload and returns at once. Triggers that come while one is waiting are merged
// with it; a trigger during a reload causes another one after it, so the newest file is always
// read. It may be called from any goroutine.
func (r *Reloader) Trigger(source string) {
	select {
	case r.triggers <- source:
	default: // one waits already, and its reload will read the newest file
	}
}

// Run takes triggers until ctx ends. Each reload has its own goroutine: the keys of a file must not
// wait for another reload that waits for names or engines. A trigger that finds a reload which has
// not read the files yet is merged with it, or signals that come faster than files are read would
// pile up.
func (r *Reloader) Run(ctx context.Context) {
	for {
		select {
		case source := <-r.triggers:
			if source != SourceAddresses && r.awaited.Swap(true) {
				continue
			}
			go r.opts.Guard.Once(guard.Reload, func() {
				defer r.awaited.Store(false)
				r.Reload(Request{Source: source})
			})
		case <-ctx.Done():
			return
		}
	}
}

// watchInterval is how often files are looked at when no event reports a change, as for a file that
// is mounted by itself: keys must count within a second there, too.
const watchInterval = 500 * time.Millisecond

// OnChange triggers a reload on SIGHUP and, with `watch`, when a file that the configuration was
// read from changes, until stop is called.
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
