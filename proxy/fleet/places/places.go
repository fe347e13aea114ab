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
	period    = 100 * time.Millisecond
	patience  = 500 * time.Millisecond // timeout for a route's exchange
	entryMost = 64                     // maximum number of placements in an entry
	keptMost  = 60_000                 // maximum number of entries of a route in the store
	readMost  = 1000                   // maximum number of entries in one read
)

// Link is the connection to the store. *fleet.Link implements Link.
type Link interface {
	Available() bool
	Append(ctx context.Context, key string, most int, entry []byte) error
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
	o    Options
	seal cipher.AEAD
	read map[string]position // by model

	told, learned, unread *metrics.Counter
	fresh                 []routing.Placement
}

// position is how far a route's stream has been read.
type position struct {
	into *routing.Places // the route's placements; a route that is configured again has new ones
	last string          // id of the last entry
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
		o: o, seal: seal, read: map[string]position{},
		told: count("told"), learned: count("learned"), unread: count("unread"),
	}
}

// Run exchanges placements until ctx is done.
func (e *Exchange) Run(ctx context.Context) {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			e.step(ctx)
		}
	}
}

func (e *Exchange) step(ctx context.Context) {
	all, placing := e.o.Routes(), 0
	for _, r := range all {
		p := routing.PlacesOf(r)
		if p == nil {
			delete(e.read, r.ID)
			continue
		}
		if placing++; e.o.Link.Available() {
			e.exchange(ctx, r.ID, p)
		}
	}
	if len(e.read) > placing { // models were removed
		maps.DeleteFunc(e.read, func(model string, _ position) bool {
			return !slices.ContainsFunc(all, func(r *routing.Route) bool { return r.ID == model })
		})
	}
}

// exchange appends this edge's placements for a route, and reads new ones. The timeout is the
// route's own: with hundreds of models, a common one would end although the store answers, and the
// store would count as lost.
func (e *Exchange) exchange(ctx context.Context, model string, p *routing.Places) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if e.tell(ctx, model, p) == nil {
		e.learn(ctx, model, p)
	}
}

func stream(model string) string { return fmt.Sprintf("r:%016x", xxhash.Sum64String(model)) }

// tell appends this edge's placements. If the store fails, tell drops them, because placements are
// only hints.
func (e *Exchange) tell(ctx context.Context, model string, p *routing.Places) error {
	e.fresh = p.TakeFresh(e.fresh[:0])
	for rest := e.fresh; len(rest) > 0; {
		n := min(len(rest), entryMost)
		if err := e.o.Link.Append(ctx, stream(model), keptMost, e.sealed(model, rest[:n])); err != nil {
			return err
		}
		e.told.Add(n)
		rest = rest[n:]
	}
	return nil
}

// learn reads the entries added since the last read. The first read covers the entire stream.
func (e *Exchange) learn(ctx context.Context, model string, p *routing.Places) {
	after := "0"
	if at := e.read[model]; at.into == p {
		after = at.last
	}
	for {
		entries, last, err := e.o.Link.Read(ctx, stream(model), after, readMost)
		if err != nil {
			return
		}
		after = last
		e.read[model] = position{p, last}
		for _, entry := range entries {
			told, ok := e.opened(model, entry)
			if !ok {
				e.unread.Inc()
				continue
			}
			p.Learn(told)
			e.learned.Add(len(told))
		}
		if len(entries) < readMost {
			return
		}
	}
}

const placementSize = 16

func (e *Exchange) sealed(model string, told []routing.Placement) []byte {
	plain := make([]byte, 0, len(told)*placementSize)
	for _, t := range told {
		plain = binary.LittleEndian.AppendUint64(plain, t.Block)
		plain = binary.LittleEndian.AppendUint64(plain, t.Upstream)
	}
	out := make([]byte, e.seal.NonceSize(), e.seal.NonceSize()+len(plain)+e.seal.Overhead())
	_, _ = rand.Read(out) // Read never fails
	return e.seal.Seal(out, out, plain, []byte(model))
}

// opened decrypts an entry. ok is false if the entry was written by an edge with a different
// secret.
func (e *Exchange) opened(model string, entry []byte) (told []routing.Placement, ok bool) {
	n := e.seal.NonceSize()
	if len(entry) < n {
		return nil, false
	}
	plain, err := e.seal.Open(nil, entry[:n], entry[n:], []byte(model))
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
