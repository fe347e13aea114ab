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
	Store   StoreOptions
	Timeout time.Duration // how long a call waits for the store
	// Expected number of edges; 0 if unknown. More edges may join.
	Edges    int
	WhenLost string // one of config.StoreLostDivide, StoreLostOpen and StoreLostClosed

	Signer  *sign.Signer // signs entries written by this edge; nil if entries are not signed
	Metrics *metrics.Set
	Self    func() Member
	Log     *zap.Logger
}

// Fleet connects this edge to the other edges in the fleet. Its methods may be called by multiple
// goroutines.
type Fleet struct {
	edgeState  edgeState
	selfMember func() Member
	log        *zap.Logger

	signer         *sign.Signer
	storeTime      storeClockReading
	birth          string      // birth of the store's data, from the last heartbeat
	heartbeatLost  bool        // whether the last heartbeat was not answered, or the breaker is still open
	ignoredMembers atomic.Bool // whether the last heartbeat returned members that this edge ignored

	client       *atomic.Pointer[valkey.Client]
	members      atomic.Pointer[[]Member]
	loggedUp     atomic.Bool // whether the store was last logged as available
	stateLogged  atomic.Bool
	storeRefuses atomic.Bool
	storeLate    atomic.Bool
	prefix       string

	dataLosses   atomic.Int64 // number of times that the store has lost its data
	storeReturns atomic.Int64 // number of times that the store has answered again

	hasSlotAccounts atomic.Bool

	// Number of edges before the store lost its data, used until edgesBeforeLossUntil.
	edgesBeforeLoss      int64
	edgesBeforeLossUntil time.Duration

	mu            sync.Mutex
	queuedReports map[*keyAccount]struct{}
	wake          chan struct{} // receives a value when a report may be due
	heartbeatNow  chan struct{} // requests a heartbeat
}

// New returns a Fleet. The store counts as lost until RunHeartbeats has reached it.
func New(o Options) *Fleet {
	r := newRemoteStore(o.Store)
	r.refusalLog.log = o.Log
	f := newFleet(&o, r)
	r.onBreakerOpen, r.lateAfter = func() { requestHeartbeat(f) }, o.Timeout
	f.client = &r.client
	return f
}

func newFleet(o *Options, s storeClient) *Fleet {
	var id [8]byte
	_, _ = rand.Read(id[:])
	f := &Fleet{
		edgeState: edgeState{
			edgeID: hex.EncodeToString(id[:]), epoch: time.Now(), clock: time.Now,
			timeout: o.Timeout, lostPolicy: o.WhenLost, store: s, metrics: newFleetMetrics(o.Metrics),
		},
		selfMember: o.Self, log: o.Log, signer: o.Signer, prefix: o.Store.Prefix, queuedReports: map[*keyAccount]struct{}{}, wake: make(chan struct{}, 1),
		heartbeatNow: make(chan struct{}, 1),
	}
	f.edgeState.reportAccount = f.queueAccount
	f.edgeState.expectedEdges.Store(int64(o.Edges))
	f.registerMetrics(o.Metrics)
	return f
}

// NewAccount returns the account of a key. It must be called only once per key, because two
// accounts for the same key would compete for its limits.
func (f *Fleet) NewAccount(id string) limit.KeyAccount { return newAccount(&f.edgeState, "k:"+id) }

// SetExpectedEdges sets the expected number of edges. 0 means unknown.
func (f *Fleet) SetExpectedEdges(n int) { f.edgeState.expectedEdges.Store(int64(n)) }

// Available reports whether the breaker is closed.
func (f *Fleet) Available() bool { return f.edgeState.store.Available() }

// Client returns the store's client, so that other packages can store their data in the store. If
// the store has not been reached yet, Client returns an error.
func (f *Fleet) Client() (valkey.Client, error) {
	if c := f.client.Load(); c != nil {
		return *c, nil
	}
	return nil, errUnreached
}

// Close closes the connections to the store. RunHeartbeats and RunReports must have returned before
// Close is called.
func (f *Fleet) Close() { f.edgeState.store.Close() }

func (f *Fleet) registerMetrics(set *metrics.Set) {
	set.NewGauge("penstock_fleet_store_up", func() float64 {
		if f.Available() {
			return 1
		}
		return 0
	})
	set.NewGauge("penstock_fleet_members", func() float64 { return float64(len(f.Members())) })
}
