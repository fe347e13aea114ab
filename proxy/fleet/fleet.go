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
	Timeout  time.Duration // the longest that a call waits for the store
	Edges    int           // the expected number; more may appear. 0: unknown
	WhenLost string        // config.LostDivide, LostOpen or LostClosed

	Signer  *sign.Signer // signs this edge's entries; nil: nothing is signed
	Metrics *metrics.Set
	Self    func() Member // what this edge reports about itself
	Log     *zap.Logger
}

// Fleet is this edge's membership in a fleet. Any goroutine may call its methods.
type Fleet struct {
	terms terms
	self  func() Member
	log   *zap.Logger

	signer  *sign.Signer
	clock   storeTime   // by the last heartbeat
	unheard bool        // the answer to the last heartbeat was lost
	ignored atomic.Bool // the last heartbeat had more members than are read

	client  *atomic.Pointer[valkey.Client]
	members atomic.Pointer[[]Member]
	up      atomic.Bool // the store's last logged state
	told    atomic.Bool
	refused atomic.Bool // the store refused the last heartbeat
	late    atomic.Bool // the last heartbeat's answer was late
	prefix  string      // of the store's keys and channels

	forgotten atomic.Int64 // how often the store did not know this edge, or may not have known it

	taken atomic.Bool // edges take turns for some slots

	edgesBefore int64 // edges seen before the store forgot them; valid until
	edgesUntil  time.Duration

	mu        sync.Mutex
	reporting map[*account]struct{} // accounts with something to report
	wake      chan struct{}         // receives when there is something to report
	ask       chan struct{}         // requests a heartbeat
}

// New returns an edge's membership in a fleet. Run connects to the store; until then the store
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
	_, _ = rand.Read(id[:]) // it never fails
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

// Client returns the connection to the store, for other data in it. It returns an error until the
// store has been reached once.
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
