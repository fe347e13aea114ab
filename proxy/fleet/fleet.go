package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"

	"penstock/proxy/access/limit"
	"penstock/proxy/fleet/sign"
)

// Options configure a fleet.
type Options struct {
	Store    StoreOptions
	Timeout  time.Duration // how long a call waits for the store
	Edges    int           // expected number of edges; 0: unknown. More edges may join
	WhenLost string        // config.LostDivide, LostOpen or LostClosed

	Signer  *sign.Signer // signs the entries that this edge writes; nil: entries are not signed
	Metrics *metrics.Set
	Self    func() Member
	Log     *zap.Logger
}

// Fleet connects this edge to the other edges of the fleet. Any goroutine may call its methods.
type Fleet struct {
	terms terms
	self  func() Member
	log   *zap.Logger

	signer  *sign.Signer
	clock   storeTime
	unheard bool        // whether the answer to the last heartbeat was lost
	ignored atomic.Bool // whether the last heartbeat returned members that were ignored

	client  *atomic.Pointer[valkey.Client]
	members atomic.Pointer[[]Member]
	up      atomic.Bool // last logged state of the store
	told    atomic.Bool
	refused atomic.Bool
	late    atomic.Bool
	prefix  string

	forgotten atomic.Int64 // how often the store has lost, or may have lost, this edge's entry

	taken atomic.Bool

	// edgesBefore is the number of edges before the store lost its data. It is used until
	// edgesUntil.
	edgesBefore int64
	edgesUntil  time.Duration

	mu        sync.Mutex
	reporting map[*account]struct{}
	wake      chan struct{} // receives a value when reporting must change
	ask       chan struct{} // requests a heartbeat
}

// New returns a Fleet. Until Heartbeats has reached the store, the store counts as lost.
func New(o Options) *Fleet {
	r := newRemote(o.Store)
	r.refused.log = o.Log
	f := newFleet(&o, r)
	r.opened, r.late = func() { beatNow(f) }, o.Timeout
	f.client = &r.client
	return f
}

func newFleet(o *Options, s store) *Fleet {
	var id [8]byte
	_, _ = rand.Read(id[:])
	f := &Fleet{
		terms: terms{
			edge: hex.EncodeToString(id[:]), epoch: time.Now(), clock: time.Now,
			timeout: o.Timeout, whenLost: o.WhenLost, store: s, metrics: newSeries(o.Metrics),
		},
		self: o.Self, log: o.Log, signer: o.Signer, prefix: o.Store.Prefix, reporting: map[*account]struct{}{}, wake: make(chan struct{}, 1),
		ask: make(chan struct{}, 1),
	}
	f.terms.report = f.queue
	f.terms.expected.Store(int64(o.Edges))
	f.show(o.Metrics)
	return f
}

// Account returns the account of a key. It must be called once for each key, because two accounts
// for the same key would compete for its limits.
func (f *Fleet) Account(id string) limit.Account { return newAccount(&f.terms, "k:"+id) }

// SetEdges sets the expected number of edges; 0: unknown.
func (f *Fleet) SetEdges(n int) { f.terms.expected.Store(int64(n)) }

// Available reports whether the breaker is closed.
func (f *Fleet) Available() bool { return f.terms.store.Available() }

// Client returns the client of the store, so that other packages can store their data. Until the
// store has been reached, it returns an error.
func (f *Fleet) Client() (valkey.Client, error) {
	if c := f.client.Load(); c != nil {
		return *c, nil
	}
	return nil, errUnreached
}

// Close closes the connections to the store. Heartbeats and Reports must have returned before.
func (f *Fleet) Close() { f.terms.store.Close() }

func (f *Fleet) show(set *metrics.Set) {
	set.NewGauge("penstock_fleet_store_up", func() float64 {
		if f.Available() {
			return 1
		}
		return 0
	})
	set.NewGauge("penstock_fleet_members", func() float64 { return float64(len(f.Members())) })
}
