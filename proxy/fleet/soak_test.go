//go:build soak

package fleet

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
)

var soakFor = flag.Duration("soak", 3*time.Minute, "how long TestSoakFleet runs")

// soakEdge is an edge that can be killed. A killed edge neither reports its usage nor returns
// amounts.
type soakEdge struct {
	fleet *Fleet
	key   *keyAccount
	kill  context.CancelFunc
	dead  atomic.Bool
	ended sync.WaitGroup
}

func newSoakEdge(s StoreOptions) *soakEdge {
	e := &soakEdge{fleet: New(Options{
		Store: s, Timeout: generousTimeout, Edges: 4, WhenLost: config.StoreLostClosed, Log: zap.NewNop(), Metrics: metrics.NewSet(),
		Self: func() Member { return Member{} },
	})}
	e.key = newAccount(&e.fleet.edgeState, "k:a")
	ctx, kill := context.WithCancel(context.Background())
	e.kill = func() {
		e.dead.Store(true)
		e.fleet.Close() // closed before RunReports ends, so that it cannot return amounts
		kill()
		e.ended.Wait()
	}
	e.ended.Go(func() { e.fleet.RunHeartbeats(ctx) })
	e.ended.Go(func() { e.fleet.RunReports(ctx) })
	return e
}

// TestSoakFleet runs four edges that acquire and release the slots of a key. Edges with running
// calls are killed. The store hangs, dies, restarts without data, and loses its clients. The number
// of slots in use must never exceed the limit, except for slots that an emptied store has briefly
// lost track of. At the end, no slot may be missing.
func TestSoakFleet(t *testing.T) {
	const slotsOfKey = 20
	limits := config.KeyLimits{Concurrency: slotsOfKey, RequestsPerMinute: 60_000, TokensPerMinute: 60_000_000}
	store := newRealStore(t)
	where := StoreOptions{Addresses: []string{store.address()}, Prefix: "ps"}
	var edges [4]atomic.Pointer[soakEdge]
	for i := range edges {
		edges[i].Store(newSoakEdge(where))
	}
	var callers sync.WaitGroup
	var admitted, killed, running, most atomic.Int64
	until := time.Now().Add(*soakFor)
	for i := range edges {
		for range 8 {
			callers.Go(func() {
				for time.Now().Before(until) {
					e := edges[i].Load()
					if !e.key.TakeRequest(limits, time.Now()).OK {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					held, d := e.key.Reserve(limits, 100, time.Now())
					if !d.OK {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					admitted.Add(1)
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) //nolint:gosec // no secret
					running.Add(-1)
					if e.dead.Load() { // the edge's calls ended when it was killed
						continue
					}
					e.key.Settle(held, 50)
				}
			})
		}
	}
	for n := 0; time.Now().Before(until); n++ {
		switch n % 6 {
		case 0, 3, 4:
			i := rand.IntN(len(edges)) //nolint:gosec // no secret
			old := edges[i].Swap(newSoakEdge(where))
			old.kill()
			killed.Add(1)
		case 1:
			store.signal(syscall.SIGSTOP)
			time.Sleep(2 * time.Second)
			store.signal(syscall.SIGCONT)
		case 2:
			store.command("CLIENT KILL TYPE normal")
		case 5:
			store.kill()
			time.Sleep(time.Second)
			store.start()
		}
		time.Sleep(3 * time.Second)
	}
	callers.Wait()
	for i := 1; i < len(edges); i++ {
		edges[i].Load().kill()
	}
	last := edges[0].Load()
	defer last.kill()
	waitUntil(t, "all slots are free", func() bool {
		free := 0
		var helds []int64
		for range slotsOfKey {
			held, d := last.key.Reserve(limits, 1, time.Now())
			if d.OK {
				helds, free = append(helds, held), free+1
			}
		}
		more, d := last.key.Reserve(limits, 1, time.Now())
		if d.OK {
			helds = append(helds, more) // the lease of a dead edge may have just expired
		}
		for _, held := range helds {
			last.key.Settle(held, 1)
		}
		if len(helds) > slotsOfKey {
			t.Fatal("more slots than there are")
		}
		return free == slotsOfKey
	})
	waitUntil(t, "the store holds nothing", func() bool {
		all := strings.Fields(store.command("HGET ps:{k:a} all"))
		// The fields are $n, the time, the first lease, and then debt, held and limit for each of
		// requests, tokens and slots.
		return len(all) >= 12 && all[10] == "0"
	})
	t.Logf("%d calls, %d edges killed, at most %d of %d slots in use; %s", admitted.Load(), killed.Load(), most.Load(), slotsOfKey, fmt.Sprint(*soakFor))
	if killed.Load() == 0 || admitted.Load() < 100 {
		t.Error("nothing has happened")
	}
}
