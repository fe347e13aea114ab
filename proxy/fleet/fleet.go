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
	Timeout  time.Duration // maximum time that a call waits for the store
	Edges    int           // the expected number of edges; 0: unknown. There may be more
	WhenLost string        // config.LostDivide, LostOpen or LostClosed

	Signer  *sign.Signer // signs this edge's entries; nil: nothing is signed
	Metrics *metrics.Set
	Self    func() Member // returns this edge's report about itself
	Log     *zap.Logger
}

// Fleet is this edge's membership in a fleet. Any goroutine may call its methods.
type Fleet struct {
	terms terms
	self  func() Member
	log   *zap.Logger

	signer  *sign.Signer
	clock   storeTime   // the store's clock at the last heartbeat
	unheard bool        // the answer to the last heartbeat was lost
	ignored atomic.Bool // the last heartbeat had more members than an edge reads

	client  *atomic.Pointer[valkey.Client]
	members atomic.Pointer[[]Member]
	up      atomic.Bool // the store's last logged state
	told    atomic.Bool
	refused atomic.Bool // the store refused the last heartbeat
	late    atomic.Bool // the last heartbeat's answer was late
	prefix  string      // prefix of the store's keys and channels

	forgotten atomic.Int64 // how often the store had lost this edge's entry, or may have lost it

	taken atomic.Bool // edges take turns for the slots of at least one upstream

	// number of edges that were alive before the store lost them, and until when it is valid
	edgesBefore int64
	edgesUntil  time.Duration

	mu        sync.Mutex
	reporting map[*account]struct{} // accounts with something to report
	wake      chan struct{}         // receives when there is something to report
	ask       chan struct{}         // requests a heartbeat
}

// New returns an edge's membership in a fleet. Run connects to the store. Until then the store
// counts as lost.
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
	_, _ = rand.Read(id[:]) // Read never fails
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

// Account returns a new account for a key. Call it once for each key, because two accounts for one
// key would count against each other.
func (f *Fleet) Account(id string) limit.Account { return newAccount(&f.terms, "k:"+id) }

// SetEdges sets the expected number of edges; 0: unknown.
func (f *Fleet) SetEdges(n int) { f.terms.expected.Store(int64(n)) }

// Available reports whether the store takes messages.
func (f *Fleet) Available() bool { return f.terms.store.Available() }

// Client returns the connection to the store, for other data in the store. It returns an error
// until the store has been reached once.
func (f *Fleet) Client() (valkey.Client, error) {
	if c := f.client.Load(); c != nil {
		return *c, nil
	}
	return nil, errUnreached
}

// Close ends the connections to the store. Heartbeats and Reports must have ended.
func (f *Fleet) Close() { f.terms.store.Close() }

// show registers the gauges.
func (f *Fleet) show(set *metrics.Set) {
	set.NewGauge("penstock_fleet_store_up", func() float64 {
		if f.Available() {
			return 1
		}
		return 0
	})
	set.NewGauge("penstock_fleet_members", func() float64 { return float64(len(f.Members())) })
}
