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
	// Exports are sinks that resume after the last acknowledged row. They require Path.
	Exports []Sink

	Metrics *metrics.Set
	Log     *zap.Logger
	Now     func() time.Time // if nil, time.Now
}

// Ledger stores usage on disk. Run and Close must not be called concurrently.
type Ledger struct {
	o    Options
	file ledgerFile
	// Whether the file is locked and its rows have been added to Usage.
	opened         bool
	sinksUpdated   bool                       // whether the sinks have already received the pending rows
	pending        map[rowID]observe.UsageRow // rows that are not on disk yet
	lastRewriteDay int64
	loggedOutcome  roundOutcome
	exports        []*Exporter
	predecessor    predecessorRows

	rounds, failed, badLines *metrics.Counter
	oldestPending            atomic.Int64 // when the oldest pending row was added, in Unix nanoseconds, or 0
}

// roundInterval is the time between two rounds. If the edge is killed, at most the usage of one
// interval is lost.
const roundInterval = time.Second

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
		l.restoreUsage(&ledgerContent{})
		return l, nil
	}
	restored := o.Restored
	o.Restored = nil
	l := &Ledger{
		o: o, file: ledgerFile{path: o.Path}, pending: map[rowID]observe.UsageRow{},
		rounds:   o.Metrics.NewCounter(`penstock_ledger_writes_total{result="ok"}`),
		failed:   o.Metrics.NewCounter(`penstock_ledger_writes_total{result="error"}`),
		badLines: o.Metrics.NewCounter("penstock_ledger_bad_lines_total"),
	}
	for n := range o.Exports {
		l.exports = append(l.exports, newExporter(&l.o, n))
	}
	o.Metrics.NewGauge("penstock_ledger_unsaved_seconds", func() float64 { return l.UnsavedTime().Seconds() })
	o.Usage.SetUnsavedFunc(l.UnsavedTime)
	l.oldestPending.Store(o.Now().UnixNano())
	err := l.open()
	var locked *LockedError
	switch {
	case err == nil, errors.As(err, &locked) && o.Wait:
	case errors.As(err, &locked), errors.Is(err, errNotLedger):
		return nil, errors.Join(err, l.file.close())
	}
	l.recordRoundOutcome(err)
	if l.opened {
		l.predecessor.clearRows()
	}
	l.o.Restored = restored
	return l, nil
}

// EdgeID returns the name that identifies this ledger's rows to the fleet's other edges. Until the
// ledger is open, it returns "".
func (l *Ledger) EdgeID() string { return l.file.header.Edge }

// Exporters returns the exports. The caller must run each of them in a separate goroutine.
func (l *Ledger) Exporters() []*Exporter { return l.exports }

// UnsavedTime returns how long the oldest pending row has been waiting for the disk.
func (l *Ledger) UnsavedTime() time.Duration {
	at := l.oldestPending.Load()
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
			return errors.Join(err, l.followPredecessor())
		}
		if err != nil {
			return err
		}
		l.restoreUsage(&c)
	}
	return l.rewrite()
}

func (l *Ledger) restoreUsage(c *ledgerContent) {
	l.opened = true
	if c.torn || c.badLines > 0 {
		l.badLines.Add(c.badLines)
		l.o.Log.Warn("lines of the ledger are cut or altered and were left out: a cut last line is at most a second of usage, "+
			"and the rows in lost are gone; restore them from a copy or an export, or their keys get the budget of that day again",
			zap.String("ledger", l.o.Path), zap.Bool("cut", c.torn), zap.Int("left_out", c.badLines), zap.Stringers("lost", c.lostRows))
	}
	if c.wasEmptied {
		l.o.Log.Warn("the ledger has been emptied or removed: all usage before this start is lost, and each key starts its budgets of "+
			"days and months anew; if that was not intended, stop the edge and restore a copy", zap.String("ledger", l.o.Path))
	}
	if l.file.header = c.header; c.header.Format == "" {
		var id [8]byte
		_, _ = rand.Read(id[:]) // Read never fails
		l.file.header = ledgerHeader{formatID, formatVersion, hex.EncodeToString(id[:]), l.o.Now().UTC().Truncate(time.Second)}
	}
	if l.o.Path == "" {
		return
	}
	l.addInheritedUsage(c, true)
	for _, x := range l.exports {
		x.addRows(l.file.header, nil)
	}
}

// followPredecessor adds the usage that the previous process has written since the last round.
func (l *Ledger) followPredecessor() error {
	info, err := os.Stat(l.file.path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // the file does not exist yet
		}
		return err
	}
	if !l.predecessor.fileChanged(info) {
		return nil
	}
	in, err := os.Open(l.file.path)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := readLedger(in) // an incomplete last line is still being written
	if err != nil {
		return err
	}
	l.predecessor.fileInfo = info
	l.addInheritedUsage(&c, false)
	return nil
}

// addInheritedUsage adds usage that the previous process has written. Unless all is true, it skips
// the rows of end users. After a user was dropped and listed again, the user's rows restart with
// fewer calls.
func (l *Ledger) addInheritedUsage(c *ledgerContent, all bool) {
	news := l.predecessor.addNewUsage(c.rows, all)
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

// InheritedUsage returns the part of a key's usage between two days (inclusive) that this process
// has read from the ledger of a previous process.
func (l *Ledger) InheritedUsage(key string, from, to int64) observe.UsageAmount {
	return l.predecessor.usageBetween(key, from, to)
}

func (l *Ledger) rewrite() error {
	l.collectChanges()
	if err := l.file.rewrite(l.o.Usage.EachRow); err != nil {
		return err
	}
	clear(l.pending)
	l.lastRewriteDay = observe.DayOf(l.o.Now())
	return nil
}

// collectChanges passes rows to the sinks only once the ledger is open. Before that, the rows lack
// the usage of earlier processes.
func (l *Ledger) collectChanges() {
	var rows []observe.UsageRow
	l.o.Usage.EachChanged(func(r observe.UsageRow) {
		l.pending[newRowID(&r)] = r
		rows = append(rows, r)
	})
	if !l.sinksUpdated && l.opened {
		rows, l.sinksUpdated = slices.Collect(maps.Values(l.pending)), true
	}
	if len(rows) == 0 || !l.opened {
		return
	}
	for _, sink := range l.o.Sinks {
		sink(l.EdgeID(), rows)
	}
	for _, x := range l.exports {
		x.addRows(l.file.header, rows)
	}
}

// Run writes the changed rows once a second until ctx ends.
func (l *Ledger) Run(ctx context.Context) {
	tick := time.NewTicker(roundInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.recordRoundOutcome(l.runRound())
		case <-ctx.Done():
			return
		}
	}
}

func (l *Ledger) runRound() error {
	l.collectChanges()
	if l.o.Path == "" {
		clear(l.pending)
		return nil
	}
	if len(l.pending) > 0 {
		l.oldestPending.CompareAndSwap(0, l.o.Now().UnixNano())
	}
	switch {
	case l.file.f == nil:
		return l.open()
	case l.lastRewriteDay != observe.DayOf(l.o.Now()) || l.file.needsRewrite():
		return l.rewrite()
	case len(l.pending) == 0:
		return nil
	}
	var lines []byte
	for _, r := range l.pending {
		lines = appendLine(lines, newRow(&r))
	}
	if err := l.file.appendLines(lines); err != nil {
		return err
	}
	clear(l.pending)
	return nil
}

func (l *Ledger) recordRoundOutcome(err error) {
	if l.o.Path == "" {
		return
	}
	is := classifyRound(err)
	switch is {
	case roundWritten:
		l.rounds.Inc()
		l.oldestPending.Store(0)
	case roundFailing:
		l.failed.Inc()
	case roundWaiting: // a round that waits is neither a success nor a failure
	}
	if is == l.loggedOutcome {
		return
	}
	was := l.loggedOutcome
	l.loggedOutcome = is
	switch {
	case is == roundFailing:
		l.o.Log.Error("the ledger cannot be written: usage is kept in memory until it can", zap.Error(err))
	case is == roundWaiting:
		l.o.Log.Info("the previous process still writes the ledger: usage and budgets begin with its figures, "+
			"and this process writes the ledger when that one has ended", zap.String("ledger", l.o.Path))
	case was == roundWaiting:
		l.o.Log.Info("the previous process has ended: this process now writes the ledger", zap.String("ledger", l.o.Path))
	default:
		l.o.Log.Info("the ledger can be written again")
	}
}

// CanClose reports whether Close would lose nothing because of the previous process: either that
// process no longer writes the ledger, or there are no changed rows. CanClose writes the changed
// rows if it can. Run must have ended.
func (l *Ledger) CanClose() bool {
	err := l.runRound()
	l.recordRoundOutcome(err)
	var locked *LockedError
	return len(l.pending) == 0 || !errors.As(err, &locked)
}

// Close writes the changed rows and closes the ledger. Run must have ended.
func (l *Ledger) Close() error {
	err := l.runRound()
	l.recordRoundOutcome(err)
	var locked *LockedError
	switch {
	case errors.As(err, &locked) && len(l.pending) == 0:
		err = nil
	case errors.As(err, &locked):
		err = errors.New("ledger: the previous process has not ended and still writes " + l.o.Path)
	}
	return errors.Join(err, l.file.close())
}
