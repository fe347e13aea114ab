package fleet

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"penstock/config"
)

// Link provides other packages with access to the store. The outcomes of their commands also count
// for the breaker. Its methods may be called by multiple goroutines.
type Link struct {
	Edge      string // id of this edge, unique to each process
	remote    *remoteStore
	edgeState *edgeState
}

// NewLink returns a Link to a fleet's store.
func NewLink(f *Fleet) *Link {
	r, _ := f.edgeState.store.(*remoteStore)
	return &Link{Edge: f.edgeState.edgeID, remote: r, edgeState: &f.edgeState}
}

// Available reports whether the breaker is closed.
func (l *Link) Available() bool { return l.remote.Available() }

// EdgeCount returns how many edges share the limits while the store is lost.
func (l *Link) EdgeCount() int { return l.edgeState.edgeCount() }

// RunScript runs a script on one key. Run adds the fleet's prefix to the key.
func (l *Link) RunScript(ctx context.Context, script *valkey.Lua, key string, args []string) ([]valkey.ValkeyMessage, error) {
	c := l.remote.client.Load()
	if c == nil {
		return nil, errUnreached
	}
	began := time.Now()
	answer, err := script.Exec(ctx, *c, []string{l.prefixedKey(key)}, args).ToArray()
	l.remote.countOutcome(key, began, err)
	return answer, err
}

// AppendToStream adds an entry to a stream. most is the approximate number of entries that the
// store keeps.
func (l *Link) AppendToStream(ctx context.Context, key string, most int, entry []byte) error {
	c := l.remote.client.Load()
	if c == nil {
		return errUnreached
	}
	began := time.Now()
	add := (*c).B().Xadd().Key(l.prefixedKey(key)).Maxlen().Almost().Threshold(strconv.Itoa(most)).Id("*")
	err := (*c).Do(ctx, add.FieldValue().FieldValue("p", valkey.BinaryString(entry)).Build()).Error()
	l.remote.countOutcome(key, began, err)
	return err
}

// Read returns up to count entries from a stream, starting after the entry with the id after. last
// is the id of the last returned entry.
func (l *Link) Read(ctx context.Context, key, after string, count int) (entries [][]byte, last string, err error) {
	c := l.remote.client.Load()
	if c == nil {
		return nil, after, errUnreached
	}
	key = l.prefixedKey(key)
	began := time.Now()
	read, err := (*c).Do(ctx, (*c).B().Xread().Count(int64(count)).Streams().Key(key).Id(after).Build()).AsXRead()
	if valkey.IsValkeyNil(err) { // there are no new entries
		err = nil
	}
	l.remote.countOutcome(key, began, err)
	for _, e := range read[key] {
		entries, after = append(entries, []byte(e.FieldValues["p"])), e.ID
	}
	return entries, after, err
}

func (l *Link) prefixedKey(key string) string { return l.remote.options.Prefix + ":{" + key + "}" }

// Slots counts an upstream's slots across the fleet. Its account has a single limit, the
// concurrency.
type Slots struct{ account *keyAccount }

// NewSlots returns the Slots for an upstream. It must be called only once per upstream, because two
// accounts for the same upstream would compete for its slots. waited reports whether calls at this
// edge are waiting for a slot. wake makes one of these calls try again. Neither function may wait
// for the account's lock.
func NewSlots(f *Fleet, upstream string, waited func() bool, wake func()) *Slots {
	f.hasSlotAccounts.Store(true)
	a := newAccount(&f.edgeState, "u:"+upstream)
	a.turns = &slotTurns{hasWaiting: waited, wake: wake}
	return &Slots{a}
}

// AcquireSlot acquires a slot. If the fleet has no free slot, AcquireSlot returns false.
func (s *Slots) AcquireSlot(limit int, now time.Time) bool {
	_, d := s.account.Reserve(config.KeyLimits{Concurrency: limit}, 0, now)
	return d.OK
}

// ReleaseSlot releases a slot.
func (s *Slots) ReleaseSlot() { s.account.Settle(0, 0) }
