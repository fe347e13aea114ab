package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"penstock/proxy/observe"
)

// Usage in the store is a hash for each day: a field for each key, model and edge, with all that
// the edge has counted of that day. So a row can be written twice, and sums are made by readers.
// An edge with a ledger keeps its name over restarts.

// usageKept is how long the store keeps a day, from its last row on.
const usageKept = 70 * 24 * time.Hour

// rowsAtOnce bounds one command.
const rowsAtOnce = 500

// Rows sends an edge's usage to the store, and reads that of all edges. Its methods may be called
// from any goroutine.
type Rows struct {
	remote    *remote
	usage     *observe.Usage
	forgotten func() int64

	mu       sync.Mutex
	edge     string                              // who counts; empty before the first rows
	reminded int64                               // of forgotten: when all rows were sent again
	pending  map[int64]map[string]observe.Amount // by day and field
}

// NewRows returns the rows of an edge's fleet. A store that has forgotten all gets all of usage
// again.
func NewRows(f *Fleet, usage *observe.Usage) *Rows {
	r, _ := f.terms.store.(*remote)
	return &Rows{remote: r, usage: usage, forgotten: f.forgotten.Load, pending: map[int64]map[string]observe.Amount{}}
}

// Add takes rows that have changed. They are sent by Run.
func (r *Rows) Add(edge string, rows []observe.UsageRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edge = edge
	for i := range rows {
		r.add(&rows[i])
	}
}

// add adds a row. The caller holds mu.
func (r *Rows) add(row *observe.UsageRow) {
	if row.Day == observe.DayBefore {
		return
	}
	if r.pending[row.Day] == nil {
		r.pending[row.Day] = map[string]observe.Amount{}
	}
	r.pending[row.Day][fieldOf(row.Key, row.Model, r.edge)] = row.Amount
}

// remind adds all rows when the store has forgotten what it was told.
func (r *Rows) remind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.forgotten(); n != r.reminded && r.edge != "" {
		r.reminded = n
		r.usage.Rows(func(row observe.UsageRow) { r.add(&row) })
	}
}

func fieldOf(words ...string) string {
	text, err := json.Marshal(words)
	if err != nil {
		panic("BUG: names cannot be written: " + err.Error())
	}
	return string(text)
}

// Run sends rows, once a second, until ctx ends, and then what is left.
func (r *Rows) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.send(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			r.send(last)
			return
		}
	}
}

// send sends what is pending. What the store does not take stays.
func (r *Rows) send(ctx context.Context) {
	r.remind()
	for {
		day, rows := r.next()
		if len(rows) == 0 || !r.remote.Available() {
			r.putBack(day, rows)
			return
		}
		if err := r.write(ctx, day, rows); err != nil {
			r.putBack(day, rows)
			return
		}
	}
}

// next takes some pending rows of one day.
func (r *Rows) next() (day int64, rows map[string]observe.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for day, all := range r.pending {
		rows = map[string]observe.Amount{}
		for field, a := range all {
			if len(rows) == rowsAtOnce {
				break
			}
			rows[field] = a
			delete(all, field)
		}
		if len(all) == 0 {
			delete(r.pending, day)
		}
		return day, rows
	}
	return 0, nil
}

// putBack has rows sent again, but those that have a newer one.
func (r *Rows) putBack(day int64, rows map[string]observe.Amount) {
	if len(rows) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[day] == nil {
		r.pending[day] = map[string]observe.Amount{}
	}
	for field, a := range rows {
		if _, newer := r.pending[day][field]; !newer {
			r.pending[day][field] = a
		}
	}
}

func (r *Rows) write(ctx context.Context, day int64, rows map[string]observe.Amount) error {
	c := r.remote.client.Load()
	if c == nil {
		return errUnreached
	}
	key := r.key(day)
	set := (*c).B().Hset().Key(key).FieldValue()
	for field, a := range rows {
		text, err := json.Marshal(a)
		if err != nil {
			panic("BUG: an amount cannot be written: " + err.Error())
		}
		set = set.FieldValue(field, string(text))
	}
	ctx, cancel := context.WithTimeout(ctx, rowsTimeout)
	defer cancel()
	expire := (*c).B().Pexpire().Key(key).Milliseconds(usageKept.Milliseconds())
	for _, answer := range (*c).DoMulti(ctx, set.Build(), expire.Build()) {
		if err := answer.Error(); err != nil {
			r.remote.note(key, err)
			return err
		}
	}
	return nil
}

// rowsTimeout bounds one command with rows. No call waits for it.
const rowsTimeout = time.Second

func (r *Rows) key(day int64) string {
	return r.remote.options.Prefix + ":{usage:" + observe.FormatDay(day) + "}"
}

// Read returns the rows of all edges, of the days that are kept.
func (r *Rows) Read(ctx context.Context, now time.Time) ([]observe.UsageRow, error) {
	c := r.remote.client.Load()
	if c == nil {
		return nil, errUnreached
	}
	var rows []observe.UsageRow
	today := observe.DayOf(now)
	var asked []valkey.Completed
	for day := today; day > today-observe.UsageDays; day-- {
		asked = append(asked, (*c).B().Hgetall().Key(r.key(day)).Build())
	}
	for i, answer := range (*c).DoMulti(ctx, asked...) {
		fields, err := answer.AsStrMap()
		if err != nil {
			return nil, err
		}
		for field, text := range fields {
			row := observe.UsageRow{Day: today - int64(i)}
			var names []string
			if json.Unmarshal([]byte(field), &names) != nil || len(names) != 3 ||
				json.Unmarshal([]byte(text), &row.Amount) != nil {
				return nil, errors.New("the store holds something else than usage on day " + strconv.Itoa(i) + " before today")
			}
			row.Key, row.Model = names[0], names[1]
			rows = append(rows, row)
		}
	}
	return rows, nil
}
