package fleet

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"penstock/config"
)

// Link gives packages that share other data than limits access to the store. The outcomes of its
// commands also count for the breaker. Any goroutine may call its methods.
type Link struct {
	Edge   string // this edge's id, which changes with every start
	remote *remote
	terms  *terms
}

// NewLink returns the link of an edge's fleet.
func NewLink(f *Fleet) *Link {
	r, _ := f.terms.store.(*remote)
	return &Link{Edge: f.terms.edge, remote: r, terms: &f.terms}
}

// Available reports whether the store takes messages.
func (l *Link) Available() bool { return l.remote.Available() }

// Edges returns the number of edges that divide the free amounts while the store is lost.
func (l *Link) Edges() int { return l.terms.edges() }

// Run runs a script on one key. It adds the fleet's prefix to the key.
func (l *Link) Run(ctx context.Context, script *valkey.Lua, key string, args []string) ([]valkey.ValkeyMessage, error) {
	c := l.remote.client.Load()
	if c == nil {
		return nil, errUnreached
	}
	began := time.Now()
	answer, err := script.Exec(ctx, *c, []string{l.key(key)}, args).ToArray()
	l.remote.countOutcome(key, began, err)
	return answer, err
}

// Append adds an entry to a stream. The stream keeps only the newest entries, about most of them.
func (l *Link) Append(ctx context.Context, key string, most int, entry []byte) error {
	c := l.remote.client.Load()
	if c == nil {
		return errUnreached
	}
	began := time.Now()
	add := (*c).B().Xadd().Key(l.key(key)).Maxlen().Almost().Threshold(strconv.Itoa(most)).Id("*")
	err := (*c).Do(ctx, add.FieldValue().FieldValue("p", valkey.BinaryString(entry)).Build()).Error()
	l.remote.countOutcome(key, began, err)
	return err
}

// Read returns up to count entries of a stream after the entry with the given id, and the id of the
// last one.
func (l *Link) Read(ctx context.Context, key, after string, count int) (entries [][]byte, last string, err error) {
	c := l.remote.client.Load()
	if c == nil {
		return nil, after, errUnreached
	}
	key = l.key(key)
	began := time.Now()
	read, err := (*c).Do(ctx, (*c).B().Xread().Count(int64(count)).Streams().Key(key).Id(after).Build()).AsXRead()
	if valkey.IsValkeyNil(err) { // there is no new entry
		err = nil
	}
	l.remote.countOutcome(key, began, err)
	for _, e := range read[key] {
		entries, after = append(entries, []byte(e.FieldValues["p"])), e.ID
	}
	return entries, after, err
}

func (l *Link) key(key string) string { return l.remote.options.Prefix + ":{" + key + "}" }

// Slots counts the slots of one upstream over the fleet, with an account whose only limit is a
// concurrency.
type Slots struct{ account *account }

// NewSlots returns the account for an upstream's slots. Call it once for each upstream, because two
// accounts would count against each other. waited reports whether calls of this edge wait for a
// slot, and wake makes one such call try again. Neither may block on the account.
func NewSlots(f *Fleet, upstream string, waited func() bool, wake func()) *Slots {
	f.taken.Store(true)
	a := newAccount(&f.terms, "u:"+upstream)
	a.turns = &turns{waited: waited, wake: wake}
	return &Slots{a}
}

// Take takes a slot if the fleet has taken fewer slots than the limit.
func (s *Slots) Take(limit int, now time.Time) bool {
	_, d := s.account.Reserve(config.KeyLimits{Concurrency: limit}, 0, now)
	return d.OK
}

// Give returns a slot.
func (s *Slots) Give() { s.account.Settle(0, 0) }
