package board

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"

	"penstock/proxy/fleet/sign"
	"penstock/upstreams"
)

const (
	busyExchangePeriod = 50 * time.Millisecond
	idleExchangePeriod = 250 * time.Millisecond
	// Maximum interval between two messages that contain all of an edge's work, even if the work
	// has not changed.
	fullMessageInterval = time.Second
	answerFreshTime     = 2 * time.Second // how long an answer remains valid without a newer answer
	// Timeout for a message, unless the store's timeout is longer.
	messageTimeout  = 200 * time.Millisecond
	maxMessageFacts = 64 // maximum number of facts in one message
)

// Link is the connection to the store. *fleet.Link implements Link.
type Link interface {
	Available() bool
	// EdgeCount returns how many edges share the limits while the store is lost.
	EdgeCount() int
	RunScript(ctx context.Context, script *valkey.Lua, key string, args []string) ([]valkey.ValkeyMessage, error)
}

// Upstreams is the set of upstreams whose load the edges share through the board. *upstreams.Set
// implements Upstreams.
type Upstreams interface {
	LocalWork(dst []upstreams.LocalWork) []upstreams.LocalWork
	SetOtherEdges(e *upstreams.OtherEdgesWork)
	DivideSlots(edges int)
}

// Options configure a Board.
type Options struct {
	Edge      string // id of this edge, unique to each process
	Link      Link
	Upstreams Upstreams
	Poison    Poison
	Signer    *sign.Signer // signs modes set by operators; nil if nothing is signed
	// Timeout is how long calls wait for the store. A message's timeout is at least as long.
	Timeout time.Duration
	Log     *zap.Logger
	Metrics *metrics.Set
}

// Board is an edge's view of the board shared by the fleet. Its methods may be called by multiple
// goroutines.
type Board struct {
	o        Options
	exchange func(ctx context.Context, m *boardMessage) (boardReply, error)
	clock    func() time.Time
	// Seed for hashing request bodies, used if this edge creates the board. Each message appends
	// its number to the seed.
	seed       string
	wake       chan struct{}
	lastAnswer atomic.Int64 // time of the last answer in Unix nanoseconds; 0 if there has been no answer
	edges      atomic.Int64

	// Only Run uses the fields below.
	messageNumber  uint64
	lastSentWork   string
	lastFullSent   time.Time
	localWork      []upstreams.LocalWork
	isBusy         bool
	modesCheckedAt time.Time // when renewModes last ran

	mu           sync.Mutex
	facts        map[string]string
	version      string
	pending      []sharedFact // facts that the board has not acknowledged
	factNumber   uint64
	appliedModes map[string]string // last valid modes, keyed by fact name
	// Upstreams to which these modes were applied. An upstream that was removed and returns is a
	// new one, without a mode.
	appliedTo    map[string]*upstreams.Upstream
	ignoredModes map[string]string // invalid modes that have already been logged

	lastCorrection time.Time // when this edge last corrected secretSinceFactName on the board
}

// New returns an edge's view of the board. Run starts to exchange messages.
func New(o Options) *Board {
	var seed [16]byte
	_, _ = rand.Read(seed[:]) // Read never fails
	b := &Board{
		o: o, clock: time.Now, seed: hex.EncodeToString(seed[:]), wake: make(chan struct{}, 1), lastSentWork: unchangedWork,
		facts: map[string]string{}, appliedModes: map[string]string{}, appliedTo: map[string]*upstreams.Upstream{}, ignoredModes: map[string]string{},
	}
	b.exchange = func(ctx context.Context, m *boardMessage) (boardReply, error) {
		list, err := o.Link.RunScript(ctx, boardScript, "board", m.scriptArgs())
		if err != nil {
			return boardReply{}, err
		}
		return parseReply(list, m.version)
	}
	o.Metrics.NewGauge("penstock_fleet_board_edges", func() float64 { return float64(b.edges.Load()) })
	return b
}

// Run exchanges messages with the board until ctx is done.
func (b *Board) Run(ctx context.Context) {
	t := time.NewTimer(0)
	defer t.Stop()
	defer func() { b.o.Upstreams.DivideSlots(b.o.Link.EdgeCount()) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-b.wake:
		}
		b.exchangeOnce(ctx)
		t.Reset(b.currentPeriod())
	}
}

func (b *Board) currentPeriod() time.Duration {
	if b.isBusy {
		return busyExchangePeriod
	}
	return idleExchangePeriod
}

func (b *Board) exchangeOnce(ctx context.Context) {
	now := b.clock()
	b.localWork = b.o.Upstreams.LocalWork(b.localWork[:0])
	b.applyModes()
	b.renewModes(now)
	if !b.o.Link.Available() {
		b.expireAnswer(now)
		return
	}
	own := ownWork(b.localWork)
	text := own.String()
	m := b.buildMessage(text, now)
	ctx, cancel := context.WithTimeout(ctx, max(messageTimeout, b.o.Timeout))
	defer cancel()
	r, err := b.exchange(ctx, m)
	if err != nil {
		b.lastSentWork = unchangedWork
		b.expireAnswer(now)
		return
	}
	b.lastSentWork = text
	if !r.workKnown {
		b.lastSentWork = unchangedWork
	}
	b.lastAnswer.Store(now.UnixNano())
	b.edges.Store(int64(r.edges))
	b.isBusy = text != "" || len(r.works) > 0
	b.o.Upstreams.SetOtherEdges(b.otherEdgesWork(&r, own))
	b.adoptFacts(m, &r)
}

func (b *Board) buildMessage(text string, now time.Time) *boardMessage {
	b.messageNumber++
	m := &boardMessage{edge: b.o.Edge, number: b.messageNumber, work: text, seed: b.seed + "." + strconv.FormatUint(b.messageNumber, 16)}
	if text == b.lastSentWork && now.Sub(b.lastFullSent) < fullMessageInterval {
		m.work = unchangedWork
	} else {
		b.lastFullSent = now
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m.version = b.version
	m.facts = append(m.facts, b.pending[:min(len(b.pending), maxMessageFacts)]...)
	return m
}

// expireAnswer makes the edge stop using the board if the last answer is older than
// answerFreshTime. The edge then uses only its share of each upstream's slots.
func (b *Board) expireAnswer(now time.Time) {
	b.isBusy = false
	if now.Sub(time.Unix(0, b.lastAnswer.Load())) >= answerFreshTime {
		b.edges.Store(0)
		b.o.Upstreams.DivideSlots(b.o.Link.EdgeCount())
	}
}

func ownWork(here []upstreams.LocalWork) workByUpstream {
	w := make(workByUpstream, len(here))
	for i := range here {
		one := upstreamWork{calls: here[i].Work.InFlight}
		if here[i].Work.Down {
			one.down = 1
		}
		w[UpstreamKey(here[i].ID)] = one
	}
	return w
}

func (b *Board) otherEdgesWork(r *boardReply, own workByUpstream) *upstreams.OtherEdgesWork {
	e := &upstreams.OtherEdgesWork{
		Edges: r.edges, Works: make(map[upstreams.ID]upstreams.EdgeWork, len(b.localWork)),
		Placed: make(map[upstreams.ID]int64, len(b.localWork)),
	}
	for i := range b.localWork {
		id := b.localWork[i].ID
		name := UpstreamKey(id)
		sum, mine := r.works[name], own[name]
		var w upstreams.EdgeWork
		for p := range w.InFlight {
			w.InFlight[p] = max(0, sum.calls[p]-mine.calls[p])
		}
		w.Down = sum.down > mine.down
		e.Works[id], e.Placed[id] = w, b.localWork[i].Placed
	}
	return e
}

// publishFact sends a fact to all edges. An empty value deletes the fact.
func (b *Board) publishFact(name, value string, life time.Duration) {
	b.mu.Lock()
	b.publishFactLocked(name, value, life)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// publishFactLocked does the work of publishFact. A new fact replaces a pending fact with the same
// name. The caller must hold mu.
func (b *Board) publishFactLocked(name, value string, life time.Duration) {
	b.factNumber++
	next := b.pending[:0:0]
	for _, f := range b.pending {
		if f.name != name {
			next = append(next, f)
		}
	}
	if len(next) >= maxPendingFacts {
		next = next[1:] // the store has been unreachable for a long time
	}
	next = append(next, sharedFact{b.factNumber, name, value, life})
	b.pending = next
}

const maxPendingFacts = 1024

// adoptFacts adopts the facts in an answer, and removes pending facts that the board has
// acknowledged.
func (b *Board) adoptFacts(m *boardMessage, r *boardReply) {
	b.mu.Lock()
	if n := len(m.facts); n > 0 {
		last := m.facts[n-1].number
		for len(b.pending) > 0 && b.pending[0].number <= last {
			b.pending = b.pending[1:]
		}
	}
	before, known := b.facts, b.version
	b.version = r.version
	if r.facts != nil {
		b.facts = r.facts
		b.adoptSecretAge(b.clock())
		if anew := parseVersionSeed(known); anew != "" && anew != parseVersionSeed(r.version) {
			b.restoreFacts(before)
		}
	}
	b.mu.Unlock()
	if r.facts != nil {
		b.applyModes()
		b.applyPoison(parseVersionSeed(r.version), r.facts)
	}
}

// parseVersionSeed returns a board's hash seed, which is the first part of the version of its
// facts.
func parseVersionSeed(version string) string {
	seed, _, _ := strings.Cut(version, ":")
	return seed
}

// restoreFacts sends the permanent facts again to a board that has lost all data. The caller must
// hold mu.
func (b *Board) restoreFacts(before map[string]string) {
	for name, value := range before {
		if _, there := b.facts[name]; !there && strings.HasPrefix(name, modeFactPrefix) {
			b.facts[name] = value
			b.publishFactLocked(name, value, b.storedModeLifetime())
		}
	}
}
