package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"penstock/proxy/telemetry/observe"
)

// For each day, the store has a hash of usage rows. A row is a field of the hash that belongs to a
// key, a model and an edge. It contains the edge's sum for that day, so writing a row twice does no
// harm. A reader adds up the rows of all edges.
//
// A second hash contains rows per end user instead of per model. The usage of end users is also
// included in the first hash. An edge that has a ledger keeps its name after a restart, and
// therefore continues its rows.

// usageTTL is how long the store keeps the rows for a day after the last write.
const usageTTL = 70 * 24 * time.Hour

const maxBatchRows = 500

// UsageExchange sends this edge's usage to the store, and reads the usage of all edges. Its methods
// may be called by multiple goroutines.
type UsageExchange struct {
	remote      *remoteStore
	usage       *observe.Usage
	countLosses func() storeLossCounts
	wake        chan struct{}

	mu           sync.Mutex
	edgeName     string
	resentLosses storeLossCounts                            // loss counts when rows were last sent again
	pending      map[rowsKey]map[string]observe.UsageAmount // keyed by hash and field
}

// storeLossCounts counts the events after which the store may lack rows that it has accepted.
type storeLossCounts struct {
	dataLosses   int64 // the store has lost all its data
	storeReturns int64 // the store was lost; a replica that replaced it may lack the last rows
}

type rowsKey struct {
	day     int64
	perUser bool
}

// NewUsageExchange returns the UsageExchange of a fleet. If the store loses its data, the
// UsageExchange sends all rows of usage again. If the store was only lost for a while, it sends the
// rows of the last two days again.
func NewUsageExchange(f *Fleet, usage *observe.Usage) *UsageExchange {
	r, _ := f.edgeState.store.(*remoteStore)
	return &UsageExchange{
		remote: r, usage: usage, wake: make(chan struct{}, 1), pending: map[rowsKey]map[string]observe.UsageAmount{},
		countLosses: func() storeLossCounts { return storeLossCounts{f.dataLosses.Load(), f.storeReturns.Load()} },
	}
}

// Add adds changed rows. It is called once a second, and Run sends the added rows immediately. If
// an edge is killed, at most one second of usage is therefore lost.
func (r *UsageExchange) Add(edge string, rows []observe.UsageRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.edgeName = edge
	for i := range rows {
		r.addPending(&rows[i])
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// addPending adds a row. The caller must hold mu.
func (r *UsageExchange) addPending(row *observe.UsageRow) {
	if row.Day == observe.OlderDays {
		return
	}
	of, name := rowsKey{row.Day, row.User != ""}, cmp.Or(row.User, row.Model)
	if r.pending[of] == nil {
		r.pending[of] = map[string]observe.UsageAmount{}
	}
	r.pending[of][usageFieldName(row.Key, name, r.edgeName)] = row.UsageAmount
}

// resendAll makes all rows that the store may have lost pending again.
func (r *UsageExchange) resendAll(today int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.countLosses()
	if n == r.resentLosses || r.edgeName == "" {
		return
	}
	first := today - 1
	if n.dataLosses != r.resentLosses.dataLosses {
		first = 0
	}
	r.resentLosses = n
	r.usage.EachRow(func(row observe.UsageRow) {
		if row.Day >= first {
			r.addPending(&row)
		}
	})
}

func usageFieldName(words ...string) string {
	text, err := json.Marshal(words)
	if err != nil {
		panic("BUG: names cannot be written: " + err.Error())
	}
	return string(text)
}

// Run sends new rows until ctx is done. Once a second, it also sends rows that the store has lost
// or did not accept. Before Run returns, it sends all pending rows.
func (r *UsageExchange) Run(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-r.wake:
			r.sendPending(ctx)
		case <-tick.C:
			r.sendPending(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			r.sendPending(last)
			return
		}
	}
}

// sendPending sends pending rows. Rows that the store does not accept stay pending.
func (r *UsageExchange) sendPending(ctx context.Context) {
	r.resendAll(observe.DayOf(time.Now()))
	for {
		of, rows := r.takeBatch()
		if len(rows) == 0 || !r.remote.Available() {
			r.restorePending(of, rows)
			return
		}
		if err := r.writeRowsToStore(ctx, of, rows); err != nil {
			r.restorePending(of, rows)
			return
		}
	}
}

func (r *UsageExchange) takeBatch() (of rowsKey, rows map[string]observe.UsageAmount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, all := range r.pending {
		rows = map[string]observe.UsageAmount{}
		for field, a := range all {
			if len(rows) == maxBatchRows {
				break
			}
			rows[field] = a
			delete(all, field)
		}
		if len(all) == 0 {
			delete(r.pending, of)
		}
		return of, rows
	}
	return of, nil
}

// restorePending makes rows pending again, except those for which a newer version is already
// pending.
func (r *UsageExchange) restorePending(of rowsKey, rows map[string]observe.UsageAmount) {
	if len(rows) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending[of] == nil {
		r.pending[of] = map[string]observe.UsageAmount{}
	}
	for field, a := range rows {
		if _, newer := r.pending[of][field]; !newer {
			r.pending[of][field] = a
		}
	}
}

func (r *UsageExchange) writeRowsToStore(ctx context.Context, of rowsKey, rows map[string]observe.UsageAmount) error {
	c := r.remote.client.Load()
	if c == nil {
		return errUnreached
	}
	key := r.usageHashKey(of)
	set := (*c).B().Hset().Key(key).FieldValue()
	for field, a := range rows {
		text, err := json.Marshal(a)
		if err != nil {
			panic("BUG: an amount cannot be written: " + err.Error())
		}
		set = set.FieldValue(field, string(text))
	}
	ctx, cancel := context.WithTimeout(ctx, rowsCommandTimeout)
	defer cancel()
	expire := (*c).B().Pexpire().Key(key).Milliseconds(usageTTL.Milliseconds())
	for _, answer := range (*c).DoMulti(ctx, set.Build(), expire.Build()) {
		if err := answer.Error(); err != nil {
			r.remote.countOutcome(key, time.Now(), err)
			return err
		}
	}
	return nil
}

// rowsCommandTimeout is the timeout for one command with rows. Calls do not wait for these commands.
const rowsCommandTimeout = time.Second

func (r *UsageExchange) usageHashKey(of rowsKey) string {
	key := r.remote.options.Prefix + ":{usage:" + observe.FormatDay(of.day) + "}"
	if of.perUser {
		key += ":users"
	}
	return key
}

// Read returns the rows of all edges from the last observe.UsageDays days. If users is true, it
// also returns rows per end user.
func (r *UsageExchange) Read(ctx context.Context, now time.Time, users bool) ([]observe.UsageRow, error) {
	c := r.remote.client.Load()
	if c == nil {
		return nil, errUnreached
	}
	var rows []observe.UsageRow
	var from []rowsKey
	var asked []valkey.Completed
	for day := observe.DayOf(now); len(from) < observe.UsageDays; day-- {
		from = append(from, rowsKey{day: day})
	}
	for i := 0; users && i < observe.UsageDays; i++ {
		from = append(from, rowsKey{from[i].day, true})
	}
	for _, of := range from {
		asked = append(asked, (*c).B().Hgetall().Key(r.usageHashKey(of)).Build())
	}
	for i, answer := range (*c).DoMulti(ctx, asked...) {
		fields, err := answer.AsStrMap()
		if err != nil {
			return nil, err
		}
		for field, text := range fields {
			row := observe.UsageRow{Day: from[i].day}
			var names []string
			if json.Unmarshal([]byte(field), &names) != nil || len(names) != 3 ||
				json.Unmarshal([]byte(text), &row.UsageAmount) != nil {
				return nil, errors.New("the store holds something other than usage on " + observe.FormatDay(row.Day))
			}
			row.Key, row.Model = names[0], names[1]
			if from[i].perUser {
				row.Model, row.User = "", names[1]
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}
