package acme

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config/testkit/acmeca"
)

// twin is a fleet's store in memory, without its seals.
type twin struct {
	mu      sync.Mutex
	change  int
	entries map[string]stored
	claims  map[string]heldBy
	pauses  map[string]pausedUntil
	refused []string
}

type stored struct {
	Entry
	change int
}

type heldBy struct {
	edge string
	till time.Time
}

type pausedUntil struct {
	hurried, next time.Time
	failures      int
}

// place is an edge's place at the twin: a Shared.
type place struct {
	*twin
	edge string
	read int
	seen map[string]int
	cut  atomic.Bool // from the store
}

var errCut = errors.New("cut off")

func newTwin() *twin {
	return &twin{entries: map[string]stored{}, claims: map[string]heldBy{}, pauses: map[string]pausedUntil{}}
}

func (w *twin) place(edge string) *place { return &place{twin: w, edge: edge, seen: map[string]int{}} }

// entry is what the twin holds under a name.
func (w *twin) entry(name string) Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[name].Entry
}

// takeRefused is what was refused since it was asked last.
func (w *twin) takeRefused() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := w.refused
	w.refused = nil
	return refused
}

func (p *place) Available() bool { return !p.cut.Load() }

func (p *place) Changes(_ context.Context, all bool) (out []Entry, whole bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut.Load() {
		return nil, false, errCut
	}
	whole = all || p.read == 0 || p.change < p.read
	if whole {
		p.read = 0
		clear(p.seen)
	}
	for name, e := range p.entries {
		if e.change > p.read {
			out, p.seen[name] = append(out, e.Entry), e.change
		}
	}
	p.read = p.change
	return out, whole, nil
}

func (p *place) Put(_ context.Context, e Entry, claimed bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := string(e.Kind) + ":" + e.Name
	switch c := p.claims[e.Name]; {
	case p.cut.Load():
		return errCut
	case claimed && (c.edge != p.edge || time.Now().After(c.till)):
		return ErrClaimLost
	case p.entries[name].change != p.seen[name]:
		return ErrChanged
	}
	p.change++
	p.entries[name], p.seen[name] = stored{e, p.change}, p.change
	return nil
}

func (p *place) Refuse(e Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = append(p.refused, fmt.Sprintf("%s %s %s", e.Kind, e.Name, e.State))
}

func (p *place) Claim(_ context.Context, domain string, hurried bool) (Claim, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, w, now := p.claims[domain], p.pauses[domain], time.Now()
	until := w.next
	if hurried {
		until = w.hurried
	}
	switch {
	case p.cut.Load():
		return Claim{}, errCut
	case c.edge != p.edge && now.Before(c.till):
		return Claim{Wait: c.till.Sub(now), Failures: w.failures}, nil
	case c.edge != p.edge && now.Before(until):
		return Claim{Wait: until.Sub(now), Failures: w.failures}, nil
	}
	p.claims[domain] = heldBy{p.edge, now.Add(Lease)}
	return Claim{Granted: true, Failures: w.failures}, nil
}

func (p *place) Release(_ context.Context, domain string, r Released) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut.Load() {
		return errCut
	}
	if p.claims[domain].edge == p.edge {
		delete(p.claims, domain)
		delete(p.pauses, domain)
		if r.Pause > 0 {
			now := time.Now()
			p.pauses[domain] = pausedUntil{now.Add(r.Hurried), now.Add(r.Pause), r.Failures}
		}
	}
	return nil
}

// member is an edge of a fleet in a bubble.
type member struct {
	*edge
	place *place
}

// join runs a manager that shares, until the test ends.
func join(t *testing.T, ca *acmeca.CA, at *atomic.Pointer[Manager], p *place, o Options) member {
	t.Helper()
	return member{begin(t, ca, at, o, func(ctx context.Context, m *Manager) {
		ShareBy(m, p)
		go Follow(ctx, m)
	}), p}
}

// die ends an edge as SIGKILL does: it says nothing more.
func (e *member) die() {
	e.place.cut.Store(true)
	e.stop()
}

// all is what the authority looks with: whichever edge it reaches must have the answer.
func all(of []*atomic.Pointer[Manager]) func(kind, domain, token, answer string) error {
	return func(kind, domain, token, answer string) error {
		for i, at := range of {
			if err := answered(at)(kind, domain, token, answer); err != nil {
				return fmt.Errorf("edge %d: %w", i, err)
			}
		}
		return nil
	}
}

// shortLife is that of certificates here: edges of a fleet ask its store twice a second.
const shortLife = 4 * time.Hour

func pointers(n int) (out []*atomic.Pointer[Manager]) {
	for range n {
		out = append(out, new(atomic.Pointer[Manager]))
	}
	return out
}

// TestFleetOrdersOnce: of three edges one obtains each certificate and all use it, with one account; every edge answers the
// challenges. A renewal is one order, too, and an edge that joins without a folder orders nothing.
func TestFleetOrdersOnce(t *testing.T) {
	for _, overHTTP := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			at, store := pointers(3), newTwin()
			ca := acmeca.New(t, acmeca.Options{Validate: all(at), Life: shortLife})
			o := Options{Domains: []string{"a.test", "b.test"}, HTTP: overHTTP}
			var edges []member
			for i := range at {
				o.Folder = filepath.Join(t.TempDir(), "certificates")
				edges = append(edges, join(t, ca, at[i], store.place(fmt.Sprint(i)), o))
			}
			same := func(orders int) {
				t.Helper()
				for _, name := range o.Domains {
					for i := range edges {
						if !edges[i].shown(t, name).Equal(edges[0].shown(t, name)) {
							t.Errorf("edge %d has another certificate of %s", i, name)
						}
					}
				}
				if accounts, began, issued := ca.Count(); accounts != 1 || began != orders || issued != orders {
					t.Errorf("%s, want one account and %d orders", ca, orders)
				}
			}
			time.Sleep(time.Minute)
			same(2)
			for i := range edges {
				kept(t, edges[i].opts.Folder)
			}
			time.Sleep(shortLife * 3 / 4)
			same(4)
			edges[1].stop()
			o.Folder = t.TempDir()
			edges[1] = join(t, ca, at[1], store.place("later"), o)
			time.Sleep(2 * time.Second)
			same(4)
			if got := store.takeRefused(); len(got) > 0 {
				t.Errorf("refused: %q", got)
			}
		})
	}
}

// TestFleetTakesOver: an edge is killed at any point of an order. Another ends that order after the lease, so one
// certificate is issued.
func TestFleetTakesOver(t *testing.T) {
	for name, pending := range map[string]int{"before the challenge": 0, "while the order is validated or issued": 3} {
		for _, after := range []time.Duration{0, 1500 * time.Millisecond, 3500 * time.Millisecond, 5500 * time.Millisecond, 7500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				at, store := pointers(2), newTwin()
				ca := acmeca.New(t, acmeca.Options{Validate: func(kind, domain, token, answer string) error {
					return answered(at[1])(kind, domain, token, answer)
				}})
				ca.Mishap(func(m *acmeca.Mishaps) { m.Pending = pending })
				o := Options{Domains: []string{"a.test"}, Folder: t.TempDir()}
				first := join(t, ca, at[0], store.place("first"), o)
				time.Sleep(100 * time.Millisecond)
				o.Folder = t.TempDir()
				second := join(t, ca, at[1], store.place("second"), o)
				time.Sleep(after)
				first.die()
				killed := time.Now()
				for second.States()[0].NotAfter.IsZero() {
					if time.Sleep(time.Second); time.Since(killed) > Lease+30*time.Second {
						t.Fatalf("%s, killed after %s: no certificate", name, after)
					}
				}
				if accounts, began, issued := ca.Count(); accounts != 1 || began != 1 || issued != 1 {
					t.Errorf("%s, killed after %s: %s", name, after, ca)
				}
			})
		}
	}
}

// TestFleetWithoutStore: without the store certificates serve on and none is ordered, which is said; each is ordered once
// when it is back. A restart uses the folder.
func TestFleetWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, store := pointers(2), newTwin()
		ca := acmeca.New(t, acmeca.Options{Validate: all(at), Life: shortLife})
		var edges []member
		o := Options{Domains: []string{"a.test"}}
		for i := range at {
			o.Folder = t.TempDir()
			edges = append(edges, join(t, ca, at[i], store.place(fmt.Sprint(i)), o))
		}
		time.Sleep(time.Minute)
		first := edges[0].shown(t, "a.test")
		for i := range edges {
			edges[i].place.cut.Store(true)
		}
		edges[1].stop()
		o.Folder = edges[1].opts.Folder
		edges[1] = join(t, ca, at[1], store.place("again"), o)
		edges[1].place.cut.Store(true)
		time.Sleep(shortLife * 3 / 4)
		for i := range edges {
			if s := edges[i].States()[0]; !edges[i].shown(t, "a.test").Equal(first) || !s.Waits || s.Failures != 0 || s.Trouble != errStoreLost.Error() {
				t.Errorf("edge %d: %+v", i, s)
			}
		}
		if n := orders(ca); n != 1 {
			t.Errorf("%d orders without the store", n)
		}
		for i := range edges {
			edges[i].place.cut.Store(false)
		}
		time.Sleep(time.Minute)
		for i := range edges {
			if s := edges[i].States()[0]; edges[i].shown(t, "a.test").Equal(first) || s.Waits || s.Trouble != "" {
				t.Errorf("edge %d after the store's return: %+v", i, s)
			}
		}
		if n := orders(ca); n != 2 {
			t.Errorf("%d orders", n)
		}
	})
}

// TestFleetLosesStoreInOrder: an edge that is cut off in the midst of an order gives it up before its lease ends, and
// another ends it.
func TestFleetLosesStoreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, store := pointers(2), newTwin()
		ca := acmeca.New(t, acmeca.Options{Validate: answered(at[1])})
		ca.Mishap(func(m *acmeca.Mishaps) { m.Pending = 20 })
		o := Options{Domains: []string{"a.test"}, Folder: t.TempDir()}
		first := join(t, ca, at[0], store.place("first"), o)
		time.Sleep(100 * time.Millisecond)
		o.Folder = t.TempDir()
		second := join(t, ca, at[1], store.place("second"), o)
		time.Sleep(5 * time.Second)
		first.place.cut.Store(true)
		cut := time.Now()
		time.Sleep(Lease)
		if s := first.States()[0]; !s.Waits || s.Failures != 0 {
			t.Errorf("%s after the cut: %+v", time.Since(cut), s)
		}
		time.Sleep(2 * time.Minute)
		first.place.cut.Store(false)
		time.Sleep(time.Minute)
		if !first.shown(t, "a.test").Equal(second.shown(t, "a.test")) || first.States()[0].Waits {
			t.Errorf("%+v, %+v", first.States(), second.States())
		}
		if _, began, issued := ca.Count(); began != 1 || issued != 1 {
			t.Errorf("%s", ca)
		}
	})
}

// TestFleetPutsRight: what the store lacks, and what is older there than what an edge has, is put right; what cannot be used
// is refused; a certificate that other keys have sealed is left alone.
func TestFleetPutsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, store := pointers(1), newTwin()
		ca := acmeca.New(t, acmeca.Options{Validate: all(at), Life: shortLife})
		e := join(t, ca, at[0], store.place("one"), Options{Domains: []string{"a.test"}, Folder: t.TempDir()})
		time.Sleep(time.Minute)
		const name = "certificate:a.test"
		old := store.entry(name)
		time.Sleep(shortLife * 3 / 4)
		renewed := e.shown(t, "a.test")
		good := store.entry(name)
		set := func(e Entry) {
			store.mu.Lock()
			defer store.mu.Unlock()
			store.change++
			store.entries[name] = stored{e, store.change}
		}
		refused := func(want ...string) {
			t.Helper()
			time.Sleep(2 * followPeriod)
			got := store.takeRefused()
			if !slices.Equal(got, want) || !e.shown(t, "a.test").Equal(renewed) {
				t.Errorf("refused: %q, want %q", got, want)
			}
			if string(store.entry(name).Text) != string(good.Text) {
				t.Error("it was not put right")
			}
		}
		set(old)
		refused("certificate a.test older")
		set(Entry{Kind: EntryCertificate, Name: "a.test", State: Forged})
		refused()
		store.mu.Lock() // FLUSHALL
		clear(store.entries)
		store.change = 0
		store.mu.Unlock()
		refused()
		if string(store.entry("account:").Text) == "" {
			t.Error("the account's key was not put back")
		}
		set(Entry{Kind: EntryCertificate, Name: "a.test", State: Stale})
		time.Sleep(2 * followPeriod)
		if store.entry(name).State != Stale {
			t.Error("an entry for those who have other keys was replaced")
		}
		set(Entry{Kind: EntryCertificate, Name: "a.test", Text: []byte("no certificate")})
		time.Sleep(2 * followPeriod)
		if got := store.takeRefused(); !slices.Equal(got, []string{"certificate a.test broken"}) || !e.shown(t, "a.test").Equal(renewed) {
			t.Errorf("refused: %q", got)
		}
	})
}

// TestFleetFailsTogether: the pauses after failures are the fleet's. Three edges do not try three times as often as one, also
// when each is reloaded, and a reload tries soon.
func TestFleetFailsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, store := pointers(3), newTwin()
		ca := acmeca.New(t, acmeca.Options{Validate: func(string, string, string, string) error { return errors.New("no route") }})
		var edges []member
		for i := range at {
			edges = append(edges, join(t, ca, at[i], store.place(fmt.Sprint(i)), Options{Domains: []string{"a.test"}, Folder: t.TempDir()}))
		}
		time.Sleep(3 * time.Hour)
		if n := orders(ca); n < 6 || n > 9 { // after 0, 2, 6, 14, 30, 62, 126 minutes and a quarter more
			t.Errorf("%d orders in 3 hours", n)
		}
		before := orders(ca)
		for i := range edges {
			edges[i].SetDomains([]string{"a.test"})
		}
		time.Sleep(hurriedPause - time.Minute)
		if n := orders(ca) - before; n < 1 || n > 3 { // as one edge's: after 0, 4 and 12 minutes
			t.Errorf("%d orders after a reload of all edges", n)
		}
	})
}

// TestFleetAccountOfOldFolders: edges that had accounts of their own go on with one.
func TestFleetAccountOfOldFolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, store := pointers(2), newTwin()
		ca := acmeca.New(t, acmeca.Options{Validate: all(at)})
		var paths []string
		for i := range at {
			dir := t.TempDir()
			f, err := openFolder(dir, ca.Directory())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := ownAccountKey(f); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, filepath.Join(f.path, accountFile))
			join(t, ca, at[i], store.place(fmt.Sprint(i)), Options{Domains: []string{"a.test"}, Folder: dir})
		}
		time.Sleep(time.Minute)
		if accounts, began, _ := ca.Count(); accounts != 1 || began != 1 {
			t.Errorf("%s", ca)
		}
		a, errA := os.ReadFile(paths[0])
		b, errB := os.ReadFile(paths[1])
		if errors.Join(errA, errB) != nil || string(a) != string(b) {
			t.Error("the folders keep two accounts")
		}
	})
}
