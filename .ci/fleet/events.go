package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/process"
)

// outageTime is how long the store hangs. After that, it is down for the same time.
const outageTime = 5 * time.Second

// measureStoreOutage makes the store hang, die and lose its data while keys are at their limits.
func (r *run) measureStoreOutage(ctx context.Context) error {
	for _, l := range r.loads {
		r.exhaustLimits(ctx, l)
	}
	playing, end := context.WithCancel(ctx)
	var calls sync.WaitGroup
	calls.Go(func() { r.loadLimitedKeys(playing, 1.5, evenDistribution, time.Hour) })
	defer calls.Wait()
	defer end()
	owedBefore := r.maxLimitExcess(time.Since(r.startedAt))
	time.Sleep(time.Second)
	var late float64 // largest number of late waits at any edge, in any outage
	var waited, tooLong float64
	away := func(what string, begin, finish func() error) error {
		r.printNote("the store %s for %s", what, outageTime)
		before := r.readStoreMessageStats(ctx)
		if err := begin(); err != nil {
			return err
		}
		time.Sleep(outageTime)
		during := r.readStoreMessageStats(ctx)
		for i := range edgeCount {
			late = max(late, during.lateWaits[i]-before.lateWaits[i])
		}
		w := during.waits.subtract(before.waits)
		waited, tooLong = waited+w.totalCount(), tooLong+w.countAbove(0.025)
		if err := finish(); err != nil {
			return err
		}
		back := time.Now()
		if err := waitUntil(ctx, 10*time.Second, "every edge has the store again",
			func() bool { return r.readStoreMessageStats(ctx).available == edgeCount }); err != nil {
			return err
		}
		again := time.Since(back)
		r.table.addRow(5, "store "+what+": shared again after it is back", "<= 1 s", heldOrMissed(again <= time.Second),
			"%.2f s", again.Seconds())
		time.Sleep(2 * time.Second)
		return nil
	}
	s := &r.world.store
	if err := away("hangs", func() error { return s.process.Suspend() },
		func() error { return s.process.Resume() }); err != nil {
		return err
	}
	kill := func() error { s.process.Kill(); return nil }
	if err := away("is dead", kill, func() error { return s.start(ctx) }); err != nil {
		return err
	}
	owedAfter := r.maxLimitExcess(time.Since(r.startedAt))
	for _, command := range []string{"FLUSHALL", "SCRIPT FLUSH"} {
		r.printNote("the store forgets: %s", command)
		if _, err := s.sendCommand(command); err != nil {
			return err
		}
		time.Sleep(2 * time.Second)
	}
	end()
	calls.Wait()
	r.table.addRow(5, "store hangs, is dead: waits longer than 25 ms", "0", verdictIfExercised(waited > 0, tooLong == 0), "%.0f of %.0f",
		tooLong, waited)
	r.table.addRow(5, "store hangs, is dead: calls of an edge that wait in vain", "<= 3", verdictIfExercised(waited > 0, late <= 3),
		"%.0f", late)
	errs := 0
	for _, l := range r.loads {
		errs += countFailed(l.allCalls())
	}
	r.table.addRow(5, "store hangs, is dead, forgets: errors", "0", heldOrMissed(errs == 0), "%d", errs)
	part := owedAfter - owedBefore
	r.table.addRow(5, "store hangs, is dead: beyond the limit", "<= 1 %", heldOrMissed(part <= 0.01),
		"%.2f %% of a minute's limit", 100*part)
	part = r.maxLimitExcess(time.Since(r.startedAt)) - owedAfter
	r.table.addRow(6, "FLUSHALL, SCRIPT FLUSH: beyond the limit", "<= 1 %", heldOrMissed(part <= 0.01),
		"%.2f %% of a minute's limit", 100*part)
	return nil
}

// maxLimitExcess returns the largest amount by which a key has certainly exceeded its limit by the
// given time, as a fraction of a minute's limit.
func (r *run) maxLimitExcess(by time.Duration) (most float64) {
	for _, l := range r.loads {
		most = max(most, maxCallsOverLimit(callsEndedBefore(l.allCalls(), by), l.limit)/float64(l.limit))
	}
	return most
}

// measureRevocation creates keys in the store and revokes them.
func (r *run) measureRevocation(ctx context.Context) error {
	r.printNote("five keys are made in the store, and revoked")
	var all []time.Duration
	for i := range 5 {
		id := fmt.Sprint("guest", i)
		key, err := r.world.runKeyCommand(ctx, "new", "--name", id)
		if err != nil {
			return err
		}
		r.world.keys[id] = key
		l := &keyLoad{key: id, model: "sim", more: shortAnswerMember}
		each := func(status int) func() bool {
			return func() bool {
				for edge := range edgeCount {
					if r.sendModelCall(ctx, l, edge).status != status {
						return false
					}
				}
				return true
			}
		}
		if err := waitUntil(ctx, 10*time.Second, "a key of the store is good at every edge", each(200)); err != nil {
			return err
		}
		var took [edgeCount]time.Duration
		var revoked time.Duration
		var polls sync.WaitGroup
		for edge := range edgeCount {
			polls.Go(func() {
				_ = waitUntil(ctx, 10*time.Second, "the key is refused", func() bool {
					c := r.sendModelCall(ctx, l, edge)
					took[edge] = c.sent
					return c.status == 401
				})
			})
		}
		_, err = r.world.runKeyCommand(ctx, "revoke", id)
		revoked = time.Since(r.startedAt)
		polls.Wait()
		if err != nil {
			return err
		}
		for _, t := range took {
			all = append(all, max(0, t-revoked))
		}
	}
	slices.Sort(all)
	half, last := all[len(all)/2], all[len(all)-1]
	r.table.addRow(8, "a revoked key is refused at every edge", "<= 1 s, p50 <= 50 ms",
		heldOrMissed(last <= time.Second && half <= 50*time.Millisecond),
		"%d ms, p50 %d ms", last.Milliseconds(), half.Milliseconds())
	return nil
}

// runKeyCommand runs `penstock key` and returns the first line of its output.
func (w *testFleet) runKeyCommand(ctx context.Context, args ...string) (string, error) {
	program, err := process.Executable()
	if err != nil {
		return "", err
	}
	first := ""
	c, err := process.Start(ctx, "penstock key", slices.Concat([]string{program, "key"}, args,
		[]string{"--store", "--config", w.configPath()}), nil,
		func(line string) bool { first = line; return true })
	if err != nil {
		return "", err
	}
	<-c.Done
	return first, nil
}

// conversation is a conversation whose turns go to different edges.
type conversation struct {
	text     string
	upstream string // engine that answered the last turn
}

// followConversations continues each conversation at random edges. It sends one call at a time, so
// that no engine is busy, even on a slow machine. The simulated engines need time to read a prompt;
// otherwise, a conversation would have no reason to stay at its engine.
func (r *run) followConversations(ctx context.Context) error {
	const conversations, turns = 48, 6
	r.printNote("%d conversations of %d turns, each turn at any edge", conversations, turns)
	all := make([]conversation, conversations)
	l := &keyLoad{key: "free", model: "chat"}
	chance := rand.New(rand.NewPCG(1, 2))
	system := randomWords(chance, 1000)
	followed, calls := 0, 0
	for turn := range turns {
		for i := range all {
			was := all[i].upstream
			r.playTurn(ctx, l, &all[i], chance.IntN(edgeCount), system, randomWords(chance, 120))
			time.Sleep(100 * time.Millisecond) // lets the other edges learn that the call has ended
			if turn > 0 {
				calls++
				if was == all[i].upstream {
					followed++
				}
			}
		}
	}
	r.table.addRow(11, "follow-ups on the engine of the turn before", ">= 99 %", heldOrMissed(fraction(followed, calls) >= 0.99),
		"%.1f %% of %d, engines not busy", 100*fraction(followed, calls), calls)
	return r.warmRestartedEdge(ctx, l, all, system, chance)
}

// warmRestartedEdge restarts an edge and sends it a turn of every conversation.
func (r *run) warmRestartedEdge(ctx context.Context, l *keyLoad, all []conversation, system string, chance *rand.Rand) error {
	last := edgeCount - 1
	r.world.edges[last].process.Kill()
	if err := r.world.startEdge(ctx, last); err != nil {
		return err
	}
	time.Sleep(5 * time.Second)
	followed := 0
	for i := range all {
		was := all[i].upstream
		if r.playTurn(ctx, l, &all[i], last, system, randomWords(chance, 120)); was == all[i].upstream {
			followed++
		}
	}
	r.table.addRow(11, "the same at an edge 5 s after its start", ">= 98 %", heldOrMissed(fraction(followed, len(all)) >= 0.98),
		"%.1f %% of %d", 100*fraction(followed, len(all)), len(all))
	return r.world.waitJoined(ctx)
}

func (r *run) playTurn(ctx context.Context, l *keyLoad, c *conversation, edge int, system, said string) {
	c.text += fmt.Sprintf(`,{"role":"user","content":%q}`, said)
	c.upstream = r.sendCall(ctx, l, edge,
		fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"system","content":%q}%s],%s}`,
			l.model, system, c.text, shortAnswerMember)).upstream
	c.text += `,{"role":"assistant","content":"Yes."}`
}

func randomWords(chance *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		fmt.Fprintf(&b, "%x ", chance.IntN(1<<20))
	}
	return b.String()
}

// usageTotals contains usage as counted by edges or engines.
type usageTotals struct {
	calls, prompt, completion int64
	// Number of aborted calls, for which the edges count the maximum number of tokens that the calls
	// may have used.
	estimated int64
}

func (b usageTotals) subtract(other usageTotals) usageTotals {
	return usageTotals{
		b.calls - other.calls, b.prompt - other.prompt, b.completion - other.completion, b.estimated - other.estimated,
	}
}

// uncountedCalls returns the number of calls with short answers that the engines have counted but
// the fleet has not. before and after are the differences between the engines' usage and the
// fleet's usage. The number is computed from how much the difference in tokens has changed. It
// excludes aborted calls, because the fleet counts an estimate for them and the engines do not
// count them.
func uncountedCalls(before, after usageTotals) int64 {
	return (after.completion-before.completion)/shortAnswerTokens - (after.estimated - before.estimated)
}

// engineUsage returns the usage that the engines have counted.
func (w *testFleet) engineUsage(ctx context.Context) (b usageTotals) {
	for _, e := range w.engines {
		s := e.stats(ctx)
		b.calls, b.prompt, b.completion = b.calls+s.Completed-s.Tests, b.prompt+s.Prompted, b.completion+s.Tokens
	}
	return b
}

// fleetUsage returns the usage of the whole fleet as reported by one edge.
func (w *testFleet) fleetUsage(ctx context.Context) (usageTotals, error) {
	t, err := client.NewTarget(w.edges[0].admin, false, nil)
	if err != nil {
		return usageTotals{}, err
	}
	p, err := t.Fetch(ctx, t.Path+"/-/usage?fleet=true", nil, nil)
	var told struct {
		Total struct {
			Calls      int64 `json:"calls"`
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Estimated  int64 `json:"estimated_calls"`
		} `json:"total"`
	}
	switch {
	case err != nil:
		return usageTotals{}, errors.New("the fleet's usage: " + client.DescribeNetworkError(err))
	case p.Status != 200:
		return usageTotals{}, fmt.Errorf("the fleet's usage: status %d", p.Status)
	}
	err = json.Unmarshal(p.Body, &told)
	return usageTotals{told.Total.Calls, told.Total.Prompt, told.Total.Completion, told.Total.Estimated}, err
}

// usageReportTime is longer than an edge needs to report its usage to the store.
const usageReportTime = 2500 * time.Millisecond

// settledFleetUsage returns the fleet's usage once it no longer changes. On a busy machine, the
// store may be slow to answer, and edges then report their usage late.
func (w *testFleet) settledFleetUsage(ctx context.Context) (b usageTotals, err error) {
	for range 4 {
		was := b
		time.Sleep(usageReportTime)
		if b, err = w.fleetUsage(ctx); err != nil || b == was {
			break
		}
	}
	return b, err
}

// compareUsage compares the usage counted by the fleet with that counted by the engines.
func (r *run) compareUsage(ctx context.Context) error {
	fleet, err := r.world.settledFleetUsage(ctx)
	if err != nil {
		return err
	}
	d := r.world.engineUsage(ctx).subtract(fleet)
	d.estimated = 0 // engines do not report it
	r.table.addRow(9, "usage of the fleet and of the engines", "the same", verdictIfExercised(fleet.calls > 0, d == usageTotals{}),
		"%d calls, %d prompt and %d completion tokens; the engines %+d, %+d, %+d", fleet.calls, fleet.prompt,
		fleet.completion, d.calls, d.prompt, d.completion)
	return nil
}

// measureKilledEdge kills an edge that holds all slots of a key, and sends calls to the other
// edges.
func (r *run) measureKilledEdge(ctx context.Context) error {
	const victim, rate = edgeCount - 1, 50
	r.printNote("an edge is killed with all %d slots of a key", slotCount)
	fleet, err := r.world.settledFleetUsage(ctx)
	if err != nil {
		return err
	}
	before := r.world.engineUsage(ctx).subtract(fleet)
	last := &keyLoad{key: "free", model: "sim", more: shortAnswerMember, limit: 1}
	r.sendRandomCalls(ctx, last, rate, func(time.Duration, float64) int { return victim }, 3*time.Second)
	var calls sync.WaitGroup
	defer calls.Wait()
	holding, end := context.WithCancel(ctx)
	defer end()
	long := &keyLoad{key: "slots", model: "keyed", more: `"sim":{"tokens":1,"ttft_ms":60000}`}
	hold := func(edge int) {
		for range slotCount {
			calls.Go(func() {
				for holding.Err() == nil && r.sendModelCall(holding, long, edge).status != 0 {
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
	}
	all := func() bool { return r.world.engines["keyed"].stats(ctx).Running == slotCount }
	hold(victim)
	if err := waitUntil(ctx, 10*time.Second, "an edge has all slots of a key", all); err != nil {
		return err
	}
	r.world.edges[victim].process.Kill()
	killed := time.Now()
	untold := callsEndedSince(last.allCalls(), killed.Sub(r.startedAt)-time.Second-maxUsageDelay)
	none := func() bool { return r.world.engines["keyed"].stats(ctx).Running == 0 }
	if err := waitUntil(ctx, 10*time.Second, "the calls of the edge that was killed are over", none); err != nil {
		return err
	}
	hold(0)
	err = waitUntil(ctx, 30*time.Second, "the slots are free", all)
	took := time.Since(killed)
	r.table.addRow(7, "an edge is killed: its slots are free", "<= 10 s",
		heldOrMissed(err == nil && took <= 10*time.Second), "%.1f s", took.Seconds())
	end()
	calls.Wait()
	if fleet, err = r.world.settledFleetUsage(ctx); err != nil {
		return err
	}
	lost := uncountedCalls(before, r.world.engineUsage(ctx).subtract(fleet))
	r.table.addRow(9, "an edge is killed: its usage lost", "<= 1 s of calls",
		verdictIfExercised(len(untold) > 0, lost >= 0 && lost <= int64(len(untold))),
		"%d calls, of %d in its last second", lost, len(untold))
	return nil
}

// maxUsageDelay is the maximum time from the end of a second until the store has the usage of that
// second.
const maxUsageDelay = 100 * time.Millisecond
