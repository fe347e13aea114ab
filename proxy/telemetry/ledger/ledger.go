package ledger

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/proxy/telemetry/observe"
)

// Options configure a ledger.
type Options struct {
	Path  string // if empty, rows are only exported
	Usage *observe.Usage
	// If Wait is true, Open follows a ledger that another edge is still writing.
	Wait bool
	// Restored is called with newly read usage from other processes, after this usage has been
	// added to Usage. Open does not call Restored.
	Restored func(rows []observe.UsageRow)

	// Sinks are called once a second with the edge's name and the changed rows. They must not
	// block.
	Sinks []func(edge string, rows []observe.UsageRow)
	// Exports resume after the last acknowledged row. They require Path.
	Exports []Sink

	Metrics *metrics.Set
	Log     *zap.Logger
	Now     func() time.Time // if nil, time.Now
}

// Ledger stores usage on disk. Run and Close must not be called concurrently.
type Ledger struct {
	o       Options
	file    file
	opened  bool                       // the file is locked and its rows have been added to Usage
	handed  bool                       // the sinks have already received the pending rows
	pending map[rowID]observe.UsageRow // rows that are not on disk yet
	day     int64
	logged  condition
	exports []*Export
	before  before

	rounds, failed, bad *metrics.Counter
	behind              atomic.Int64 // when the oldest pending row was added, in Unix nanoseconds, or 0
}

// period is the interval of the rounds. If the edge is killed, at most the usage of one period is
// lost.
const period = time.Second

// Open opens an edge's ledger and adds its contents to Usage. It fails if another edge writes the
// ledger (unless Wait is set), or if the file is not a ledger. An unusable disk is not an error,
// because Run tries again.
func Open(o Options) (*Ledger, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Path == "" {
		o.Restored = nil
		l := &Ledger{o: o, pending: map[rowID]observe.UsageRow{}}
		l.adopt(&content{})
		return l, nil
	}
	restored := o.Restored
	o.Restored = nil
	l := &Ledger{
		o: o, file: file{path: o.Path}, pending: map[rowID]observe.UsageRow{},
		rounds: o.Metrics.NewCounter(`penstock_ledger_writes_total{result="ok"}`),
		failed: o.Metrics.NewCounter(`penstock_ledger_writes_total{result="error"}`),
		bad:    o.Metrics.NewCounter("penstock_ledger_bad_lines_total"),
	}
	for n := range o.Exports {
		l.exports = append(l.exports, newExport(&l.o, n))
	}
	o.Metrics.NewGauge("penstock_ledger_unsaved_seconds", func() float64 { return l.Unsaved().Seconds() })
	o.Usage.SavedBy(l.Unsaved)
	l.behind.Store(o.Now().UnixNano())
	err := l.open()
	var locked *LockedError
	switch {
	case err == nil, errors.As(err, &locked) && o.Wait:
	case errors.As(err, &locked), errors.Is(err, errForeign):
		return nil, errors.Join(err, l.file.close())
	}
	l.countRound(err)
	if l.opened {
		l.before.forget()
	}
	l.o.Restored = restored
	return l, nil
}

// Edge returns the name that identifies this ledger's rows to the fleet's other edges. Until the
// ledger is open, it returns "".
func (l *Ledger) Edge() string { return l.file.header.Edge }

// Exports returns the exports. The caller must run each of them in a separate goroutine.
func (l *Ledger) Exports() []*Export { return l.exports }

// Unsaved returns how long the oldest pending row has been waiting for the disk.
func (l *Ledger) Unsaved() time.Duration {
	at := l.behind.Load()
	if at == 0 {
		return 0
	}
	return max(0, l.o.Now().Sub(time.Unix(0, at)))
}

func (l *Ledger) open() error {
	if !l.opened {
		c, err := l.file.open()
		var locked *LockedError
		if errors.As(err, &locked) && l.o.Wait {
			return errors.Join(err, l.follow())
		}
		if err != nil {
			return err
		}
		l.adopt(&c)
	}
	return l.rewrite()
}

func (l *Ledger) adopt(c *content) {
	l.opened = true
	if c.torn || c.bad > 0 {
		l.bad.Add(c.bad)
		l.o.Log.Warn("lines of the ledger are cut or altered and were left out: a cut last line is at most a second of usage, "+
			"and the rows in lost are gone; restore them from a copy or an export, or their keys get the budget of that day again",
			zap.String("ledger", l.o.Path), zap.Bool("cut", c.torn), zap.Int("left_out", c.bad), zap.Stringers("lost", c.lost))
	}
	if c.emptied {
		l.o.Log.Warn("the ledger has been emptied or removed: all usage before this start is lost, and each key starts its budgets of "+
			"days and months anew; if that was not intended, stop the edge and restore a copy", zap.String("ledger", l.o.Path))
	}
	if l.file.header = c.header; c.header.Format == "" {
		var id [8]byte
		_, _ = rand.Read(id[:]) // Read never fails
		l.file.header = header{format, version, hex.EncodeToString(id[:]), l.o.Now().UTC().Truncate(time.Second)}
	}
	if l.o.Path == "" {
		return
	}
	l.inherit(c, true)
	for _, x := range l.exports {
		x.add(l.file.header, nil)
	}
}

// follow adds the usage that the previous process has written since the last round.
func (l *Ledger) follow() error {
	info, err := os.Stat(l.file.path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // the file does not exist yet
		}
		return err
	}
	if !l.before.differs(info) {
		return nil
	}
	in, err := os.Open(l.file.path)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := read(in) // an incomplete last line is still being written
	if err != nil {
		return err
	}
	l.before.file = info
	l.inherit(&c, false)
	return nil
}

// inherit adds usage that the previous process has written. It skips rows of end users unless all
// is true, because a user who was dropped and listed again starts over with fewer calls.
func (l *Ledger) inherit(c *content, all bool) {
	news := l.before.add(c.rows, all)
	if len(news) == 0 && !all {
		return
	}
	since := l.file.header.Since
	if l.file.header.Format == "" {
		since = c.header.Since
	}
	l.o.Usage.Restore(since, news)
	if l.o.Restored != nil {
		l.o.Restored(news)
	}
}

// Inherited returns the part of a key's usage between two days that this process has not counted
// under its ledger's name.
func (l *Ledger) Inherited(key string, from, to int64) observe.Amount {
	return l.before.of(key, from, to)
}

func (l *Ledger) rewrite() error {
	l.collect()
	if err := l.file.rewrite(l.o.Usage.Rows); err != nil {
		return err
	}
	clear(l.pending)
	l.day = observe.DayOf(l.o.Now())
	return nil
}

// collect passes rows to the sinks only once the ledger is open, because before that, the rows lack
// the usage of earlier processes.
func (l *Ledger) collect() {
	var rows []observe.UsageRow
	l.o.Usage.Changed(func(r observe.UsageRow) {
		l.pending[idOf(&r)] = r
		rows = append(rows, r)
	})
	if !l.handed && l.opened {
		rows, l.handed = slices.Collect(maps.Values(l.pending)), true
	}
	if len(rows) == 0 || !l.opened {
		return
	}
	for _, sink := range l.o.Sinks {
		sink(l.Edge(), rows)
	}
	for _, x := range l.exports {
		x.add(l.file.header, rows)
	}
}

// Run writes the changed rows once a second until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.countRound(l.round())
		case <-ctx.Done():
			return
		}
	}
}

func (l *Ledger) round() error {
	l.collect()
	if l.o.Path == "" {
		clear(l.pending)
		return nil
	}
	if len(l.pending) > 0 {
		l.behind.CompareAndSwap(0, l.o.Now().UnixNano())
	}
	switch {
	case l.file.f == nil:
		return l.open()
	case l.day != observe.DayOf(l.o.Now()) || l.file.grown():
		return l.rewrite()
	case len(l.pending) == 0:
		return nil
	}
	var lines []byte
	for _, r := range l.pending {
		lines = appendLine(lines, rowOf(&r))
	}
	if err := l.file.write(lines); err != nil {
		return err
	}
	clear(l.pending)
	return nil
}

func (l *Ledger) countRound(err error) {
	if l.o.Path == "" {
		return
	}
	is := conditionOf(err)
	switch is {
	case written:
		l.rounds.Inc()
		l.behind.Store(0)
	case failing:
		l.failed.Inc()
	case waiting: // waiting is neither a success nor a failure
	}
	if is == l.logged {
		return
	}
	was := l.logged
	l.logged = is
	switch {
	case is == failing:
		l.o.Log.Error("the ledger cannot be written: usage is kept in memory until it can", zap.Error(err))
	case is == waiting:
		l.o.Log.Info("the previous process still writes the ledger: usage and budgets begin with its figures, "+
			"and this process writes the ledger when that one has ended", zap.String("ledger", l.o.Path))
	case was == waiting:
		l.o.Log.Info("the previous process has ended: this process now writes the ledger", zap.String("ledger", l.o.Path))
	default:
		l.o.Log.Info("the ledger can be written again")
	}
}

// Close writes the changed rows and closes the ledger. Run must have ended.
func (l *Ledger) Close() error {
	err := l.round()
	l.countRound(err)
	return errors.Join(err, l.file.close())
}
