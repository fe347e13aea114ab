package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/proxy/telemetry/observe"
)

// Exporter sends the ledger's rows to a sink. A row contains the total usage of its day. A sink may
// receive a row twice, and must use the last row with each id. Acknowledged rows are stored in a
// file next to the ledger. An export resumes from this file.
type Exporter struct {
	sink      Sink
	deliverer deliverer
	ackFile   ledgerFile
	log       *zap.Logger
	now       func() time.Time

	usage   *observe.Usage
	acked   map[rowID]observe.UsageAmount // nil until the file has been read
	failing bool

	succeeded, failed *metrics.Counter

	mu           sync.Mutex
	header       ledgerHeader // the ledger's header; empty until the ledger is open
	pending      map[rowID]observe.UsageRow
	pendingSince time.Time // when the first pending row was added
}

// Sink is the destination of rows: a file or a URL.
type Sink struct {
	File       string
	URL, Token string
}

func (s *Sink) address() string {
	if s.File != "" {
		return s.File
	}
	return s.URL
}

// logName returns the sink's name for the log. It omits the path of a URL, because webhook URLs
// contain secrets in the path.
func (s *Sink) logName() string {
	u, err := url.Parse(s.URL)
	if s.File != "" || err != nil {
		return s.File
	}
	return u.Scheme + "://" + u.Host
}

type exportedRow struct {
	// ID consists of the edge, the day, the key, and the model or end user. If two rows have the
	// same id, the row with more calls counts.
	ID   string `json:"id"`
	Edge string `json:"edge"`
	UsageSumRow
}

const maxBatchRows = 500

func newExporter(o *Options, n int) *Exporter {
	s := o.Exports[n]
	sum := sha256.Sum256([]byte(s.address()))
	x := &Exporter{
		sink: s, deliverer: newDeliverer(&s), log: o.Log, now: o.Now, usage: o.Usage, pending: map[rowID]observe.UsageRow{},
		ackFile: ledgerFile{path: o.Path + ".sent-" + hex.EncodeToString(sum[:4])},
	}
	label := `{sink="` + strconv.Itoa(n) + `"`
	x.succeeded = o.Metrics.NewCounter("penstock_ledger_export_total" + label + `,result="ok"}`)
	x.failed = o.Metrics.NewCounter("penstock_ledger_export_total" + label + `,result="error"}`)
	o.Metrics.NewGauge("penstock_ledger_export_behind_seconds"+label+"}", func() float64 { return x.OldestPendingAge().Seconds() })
	return x
}

// OldestPendingAge returns how long the oldest pending row has been waiting for the sink.
func (x *Exporter) OldestPendingAge() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.pending) == 0 {
		return 0
	}
	return max(0, x.now().Sub(x.pendingSince))
}

// addRows adds changed rows, and sets the header of the ledger to which they belong.
func (x *Exporter) addRows(h ledgerHeader, rows []observe.UsageRow) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.header = h
	for i := range rows {
		if rows[i].Day == observe.OlderDays { // the days in this sum were exported individually
			continue
		}
		if len(x.pending) == 0 {
			x.pendingSince = x.now()
		}
		x.pending[newRowID(&rows[i])] = rows[i]
	}
}

// Run exports rows until ctx ends.
func (x *Exporter) Run(ctx context.Context) {
	wait := roundInterval
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if err := x.exportPending(ctx, deliveryTimeout); err != nil {
			wait = min(2*wait, time.Minute)
			continue
		}
		wait = roundInterval
	}
}

// Close makes one attempt to export the remaining rows. Run must have ended.
func (x *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	// Remaining rows are in the ledger, and the next process exports them.
	_ = x.exportPending(ctx, time.Second)
	return x.ackFile.close()
}

func (x *Exporter) exportPending(ctx context.Context, within time.Duration) error {
	err := x.openAckFile()
	for err == nil && ctx.Err() == nil {
		rows, h := x.nextBatch()
		if len(rows) == 0 {
			break
		}
		if err = x.deliverer.deliver(encodeRows(h.Edge, rows), within); err == nil {
			x.succeeded.Inc()
			err = x.acknowledge(rows)
		}
	}
	if err != nil {
		x.failed.Inc()
	}
	if failing := err != nil; failing != x.failing {
		x.failing = failing
		if failing {
			x.log.Warn("the export of the ledger fails: its rows are kept and sent later", zap.String("sink", x.sink.logName()), zap.Error(err))
		} else {
			x.log.Info("the export of the ledger works again", zap.String("sink", x.sink.logName()))
		}
	}
	return err
}

func (x *Exporter) openAckFile() error {
	x.mu.Lock()
	h := x.header
	x.mu.Unlock()
	if h.Edge == "" || x.ackFile.f != nil {
		return nil
	}
	if x.acked == nil {
		c, err := x.ackFile.open()
		if err != nil {
			return err
		}
		acked := map[rowID]observe.UsageAmount{}
		if c.header.Edge == h.Edge { // acknowledgements for another ledger are ignored
			for i := range c.rows {
				acked[newRowID(&c.rows[i])] = c.rows[i].UsageAmount
			}
		}
		x.ackFile.header, x.acked = h, acked
		var rows []observe.UsageRow
		x.usage.EachRow(func(r observe.UsageRow) { rows = append(rows, r) })
		x.addRows(h, rows)
	}
	return x.rewriteAcks()
}

func (x *Exporter) nextBatch() (rows []observe.UsageRow, h ledgerHeader) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, r := range x.pending {
		if x.acked[id] == r.UsageAmount {
			delete(x.pending, id)
			continue
		}
		if rows = append(rows, r); len(rows) == maxBatchRows {
			break
		}
	}
	return rows, x.header
}

func (x *Exporter) acknowledge(rows []observe.UsageRow) error {
	var lines []byte
	x.mu.Lock()
	for i := range rows {
		r, id := &rows[i], newRowID(&rows[i])
		x.acked[id] = r.UsageAmount
		lines = appendLine(lines, newRow(r))
		if x.pending[id].UsageAmount == r.UsageAmount {
			delete(x.pending, id)
		}
	}
	x.pendingSince = x.now()
	x.mu.Unlock()
	if x.ackFile.needsRewrite() {
		return x.rewriteAcks()
	}
	return x.ackFile.appendLines(lines)
}

func (x *Exporter) rewriteAcks() error {
	oldest := observe.DayOf(x.now()) - observe.UsageDays
	for id := range x.acked {
		if id.day < oldest {
			delete(x.acked, id)
		}
	}
	return x.ackFile.rewrite(func(write func(observe.UsageRow)) {
		for id, a := range x.acked {
			write(observe.UsageRow{Key: id.key, Model: id.model, User: id.user, Day: id.day, UsageAmount: a})
		}
	})
}

func encodeRows(edge string, rows []observe.UsageRow) []byte {
	var out []byte
	for i := range rows {
		row := newRow(&rows[i])
		what := fmt.Appendf(nil, "%q %s %q %q", edge, row.Day, row.Key, row.Model)
		if row.User != "" {
			what = fmt.Appendf(what, " %q", row.User)
		}
		sum := sha256.Sum256(what)
		line, err := json.Marshal(exportedRow{ID: hex.EncodeToString(sum[:12]), Edge: edge, UsageSumRow: row})
		if err != nil {
			panic("BUG: a row of the ledger cannot be written: " + err.Error())
		}
		out = append(append(out, line...), '\n')
	}
	return out
}
