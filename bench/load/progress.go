package load

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Progress is the state of a run in progress.
type Progress struct {
	Elapsed                           time.Duration
	Stage                             string
	InFlight, Completed, Failed, Left int64
	// RequestRate and TokenRate are rates per second, measured over the most recent interval.
	RequestRate, TokenRate float64
}

// reportProgress calls progress about once a second.
func (r *loadRun) reportProgress(ctx context.Context, progress func(Progress)) {
	done, tokens, last := int64(0), int64(0), time.Now()
	for sleepUnlessDone(ctx, time.Second) {
		now := Progress{
			Elapsed: time.Since(r.send.Clock.Start), InFlight: r.live.inFlight.Load(),
			Completed: r.live.completed.Load(), Failed: r.live.failed.Load(), Left: r.live.left.Load(),
		}
		if s := r.live.stage.Load(); s != nil {
			now.Stage = *s
		}
		seen, span := r.rec.series.tokenEventCount(), time.Since(last).Seconds()
		now.RequestRate, now.TokenRate = float64(now.Completed-done)/span, float64(seen-tokens)/span
		done, tokens, last = now.Completed, seen, time.Now()
		progress(now)
	}
}

// NewProgressDisplay returns a function that prints progress. On a terminal, progress overwrites a
// single line, and end erases this line. Otherwise, progress prints a line every five seconds.
func NewProgressDisplay(w io.Writer, terminal bool) (progress func(Progress), end func()) {
	n := 0
	progress = func(p Progress) {
		text := fmt.Sprintf("%4.0fs  %s  in flight %d  done %d  failed %d  %.1f req/s  %.0f tok/s", p.Elapsed.Seconds(), p.Stage, p.InFlight, p.Completed, p.Failed, p.RequestRate, p.TokenRate)
		switch n++; {
		case terminal:
			fmt.Fprintf(w, "\r\x1b[K%s", text)
		case n%5 == 0:
			fmt.Fprintln(w, text)
		}
	}
	end = func() {
		if terminal && n > 0 {
			fmt.Fprint(w, "\r\x1b[K")
		}
	}
	return progress, end
}
