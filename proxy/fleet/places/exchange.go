package places

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/cespare/xxhash/v2"

	"penstock/routing"
)

const (
	exchangeInterval   = 100 * time.Millisecond
	exchangeTimeout    = 500 * time.Millisecond // timeout for a route's exchange
	maxEntryPlacements = 64                     // maximum number of placements in an entry
	maxStreamEntries   = 60_000                 // maximum number of entries in a route's stream
	maxReadEntries     = 1000                   // maximum number of entries in one read
)

// Link is the connection to the store. *fleet.Link implements Link.
type Link interface {
	Available() bool
	AppendToStream(ctx context.Context, key string, most int, entry []byte) error
	Read(ctx context.Context, key, after string, count int) (entries [][]byte, last string, err error)
}

// Options configure an Exchange.
type Options struct {
	Link    Link
	Secret  string // secret known to all edges: the store's password
	Routes  func() []*routing.Route
	Metrics *metrics.Set
}

// Exchange sends this edge's placements to the other edges and receives theirs.
type Exchange struct {
	o         Options
	aead      cipher.AEAD
	positions map[string]streamPosition // by model

	sentCount, learnedCount, unreadableCount *metrics.Counter
	newPlacements                            []routing.Placement
}

// streamPosition is how far a route's stream has been read.
type streamPosition struct {
	// The route's placements; a route that is configured again has new ones.
	placements  *routing.SharedPlacements
	lastEntryID string // id of the last entry
}

// New returns an Exchange. Run starts to exchange placements.
func New(o Options) *Exchange {
	key := sha256.Sum256([]byte("placements of conversations\x00" + o.Secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: the key of placements: " + err.Error())
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		panic("BUG: the seal of placements: " + err.Error())
	}
	count := func(what string) *metrics.Counter {
		return o.Metrics.NewCounter(`penstock_fleet_placements_total{result="` + what + `"}`)
	}
	return &Exchange{
		o: o, aead: seal, positions: map[string]streamPosition{},
		sentCount: count("told"), learnedCount: count("learned"), unreadableCount: count("unread"),
	}
}

// Run exchanges placements until ctx is done.
func (e *Exchange) Run(ctx context.Context) {
	t := time.NewTicker(exchangeInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.exchangeAll(ctx)
		}
	}
}

func (e *Exchange) exchangeAll(ctx context.Context) {
	all, placing := e.o.Routes(), 0
	for _, r := range all {
		p := routing.PlacementsOfRoute(r)
		if p == nil {
			delete(e.positions, r.ID)
			continue
		}
		if placing++; e.o.Link.Available() {
			e.exchangeRoute(ctx, r.ID, p)
		}
	}
	if len(e.positions) > placing { // models were removed
		maps.DeleteFunc(e.positions, func(model string, _ streamPosition) bool {
			return !slices.ContainsFunc(all, func(r *routing.Route) bool { return r.ID == model })
		})
	}
}

// exchangeRoute appends this edge's placements for a route, and reads new ones. Each route has a
// separate timeout. With hundreds of models, a common timeout could expire even though the store
// answers, and the store would count as lost.
func (e *Exchange) exchangeRoute(ctx context.Context, model string, p *routing.SharedPlacements) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	if e.appendPlacements(ctx, model, p) == nil {
		e.readNewPlacements(ctx, model, p)
	}
}

func routeStreamKey(model string) string { return fmt.Sprintf("r:%016x", xxhash.Sum64String(model)) }

// appendPlacements appends this edge's placements. If the store fails, appendPlacements drops them,
// because placements are only hints.
func (e *Exchange) appendPlacements(ctx context.Context, model string, p *routing.SharedPlacements) error {
	e.newPlacements = p.TakeUnshared(e.newPlacements[:0])
	for rest := e.newPlacements; len(rest) > 0; {
		n := min(len(rest), maxEntryPlacements)
		if err := e.o.Link.AppendToStream(ctx, routeStreamKey(model), maxStreamEntries, e.sealEntry(model, rest[:n])); err != nil {
			return err
		}
		e.sentCount.Add(n)
		rest = rest[n:]
	}
	return nil
}

// readNewPlacements reads the entries added since the last read. The first read covers the entire
// stream.
func (e *Exchange) readNewPlacements(ctx context.Context, model string, p *routing.SharedPlacements) {
	after := "0"
	if at := e.positions[model]; at.placements == p {
		after = at.lastEntryID
	}
	for {
		entries, last, err := e.o.Link.Read(ctx, routeStreamKey(model), after, maxReadEntries)
		if err != nil {
			return
		}
		after = last
		e.positions[model] = streamPosition{p, last}
		for _, entry := range entries {
			told, ok := e.openEntry(model, entry)
			if !ok {
				e.unreadableCount.Inc()
				continue
			}
			p.AddFromFleet(told)
			e.learnedCount.Add(len(told))
		}
		if len(entries) < maxReadEntries {
			return
		}
	}
}

const placementSize = 16

func (e *Exchange) sealEntry(model string, told []routing.Placement) []byte {
	plain := make([]byte, 0, len(told)*placementSize)
	for _, t := range told {
		plain = binary.LittleEndian.AppendUint64(plain, t.Block)
		plain = binary.LittleEndian.AppendUint64(plain, t.Upstream)
	}
	out := make([]byte, e.aead.NonceSize(), e.aead.NonceSize()+len(plain)+e.aead.Overhead())
	_, _ = rand.Read(out) // Read never fails
	return e.aead.Seal(out, out, plain, []byte(model))
}

// openEntry decrypts an entry. ok is false if the entry was written by an edge with a different
// secret.
func (e *Exchange) openEntry(model string, entry []byte) (told []routing.Placement, ok bool) {
	n := e.aead.NonceSize()
	if len(entry) < n {
		return nil, false
	}
	plain, err := e.aead.Open(nil, entry[:n], entry[n:], []byte(model))
	if err != nil || len(plain)%placementSize != 0 {
		return nil, false
	}
	for ; len(plain) > 0; plain = plain[placementSize:] {
		told = append(told, routing.Placement{
			Block: binary.LittleEndian.Uint64(plain), Upstream: binary.LittleEndian.Uint64(plain[8:]),
		})
	}
	return told, true
}
