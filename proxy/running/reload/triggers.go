package reload

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"penstock/config/filewatch"
	"penstock/proxy/telemetry/guard"
)

// Trigger requests a reload, and does not wait for it. Triggers that are waiting for the same
// reload are merged. A trigger that arrives after the files have been read causes another reload,
// so the newest files are always read. Trigger may be called by multiple goroutines.
func (r *Reloader) Trigger(source string) {
	waiting := r.triggers
	// These reloads do not read the file, so they have separate triggers.
	if o := reapplyTriggersFor(r, source); o != nil {
		waiting = o.triggers
	}
	select {
	case waiting <- source:
	default: // the reload for the waiting trigger will read the same files
	}
}

// Run handles triggers until ctx is done. Each reload runs on a separate goroutine. The keys in a
// file must not wait for another reload, which may be waiting for DNS or engines. Run handles the
// next trigger once the previous reload has started to read the files. At any time, at most one
// reload is therefore waiting to read the files, no matter how many triggers there are.
func (r *Reloader) Run(ctx context.Context) {
	for {
		select {
		case source := <-r.triggers:
			reads := make(chan struct{})
			begins := sync.OnceFunc(func() { close(reads) })
			r.startReload(Request{Source: source, onRead: func() {
				select {
				// This reload has not read the files yet, so it also handles the next trigger.
				case <-r.triggers:
				default:
				}
				begins()
			}}, begins)
			<-reads
		case source := <-r.addresses.triggers:
			startReapply(r, source)
		case source := <-r.models.triggers:
			startReapply(r, source)
		case <-ctx.Done():
			return
		}
	}
}

// startReapply starts a reload that does not read the file, unless such a reload is already
// waiting.
func startReapply(r *Reloader, source string) {
	o := reapplyTriggersFor(r, source)
	if o.reloadPending.Swap(true) { // otherwise, frequent triggers would accumulate
		return
	}
	begins := sync.OnceFunc(func() { o.reloadPending.Store(false) })
	r.startReload(Request{Source: source, onRead: begins}, begins)
}

// startReload runs a reload on a new goroutine. It calls ended when the reload ends, even after a
// panic.
func (r *Reloader) startReload(q Request, ended func()) {
	go r.opts.Guard.RunWithRecover(guard.PlaceReload, func() {
		defer ended()
		r.Reload(q)
	})
}

// watchInterval is how often files are checked even if there are no file events. A file that is
// mounted individually causes no events, but keys in it must take effect within a second.
const watchInterval = 500 * time.Millisecond

// WatchChanges triggers a reload on SIGHUP until stop is called. If watch is configured, a change
// to a configuration file also triggers a reload. The files that a rejected configuration names are
// watched too, because the change that mends it may be in one of them.
func (r *Reloader) WatchChanges(ctx context.Context) (stop func()) {
	g := r.opts.Guard
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	w := &filewatch.Watcher{
		Paths: func() []string {
			g.PanicIfInjected(guard.PlaceFiles)
			paths := r.RunningSnapshot().Config.ReferencedFiles()
			if named := r.namedFiles.Load(); named != nil {
				paths = slices.Concat(paths, *named)
			}
			return paths
		},
		OnChange: func() {
			if r.RunningSnapshot().Config.Watch {
				r.Trigger(sourceFile)
			}
		},
		Interval: watchInterval,
	}
	w.RecordHashes()
	go g.Loop(ctx.Done(), guard.PlaceFiles, func() { w.Run(ctx) })
	go g.Loop(ctx.Done(), guard.PlaceReload, func() {
		for {
			select {
			case <-hangup:
				g.PanicIfInjected("reload.signal")
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
