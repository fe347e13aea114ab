package tiers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// startArms runs edges with two engines. The second engine belongs to an arm that receives a share of
// the calls.
func startArms(t *testing.T, edges int, traffic, model string) []*rig.LocalEdge {
	t.Helper()
	var all []*rig.LocalEdge
	for i := range edges {
		s := armsSetup(traffic, model)
		if i > 0 {
			s.Config = strings.NewReplacer("{{up-0}}", all[0].Engines[0].URL(), "{{up-1}}", all[0].Engines[1].URL()).Replace(s.Config)
			s.Engines = nil
		}
		all = append(all, rig.Start(t, s))
	}
	return all
}

func armsSetup(traffic, model string) rig.Setup {
	return rig.Setup{
		Engines: []sim.Options{{Slots: 64}, {Slots: 64}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
retry: { budget: 100%% }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, concurrency: 2, probe: { interval: 200ms, timeout: 15s, fall: 1, rise: 1 } }
  - { name: new, url: "{{up-1}}", engine: sim, concurrency: 2, probe: { interval: 200ms, timeout: 15s, fall: 1, rise: 1 } }
models:
  - id: sim
    deployments: [{ upstream: old }, { upstream: new, traffic: %s }]
    %s
`, traffic, model),
	}
}

// line contains the fields of an access line that describe arms.
type line struct {
	Msg, Upstream, Arm string
	MissedArm          string `json:"missed_arm"`
}

func lines(p *rig.LocalEdge) (all []line) {
	for text := range strings.Lines(p.Log.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Msg == "call" {
			all = append(all, l)
		}
	}
	return all
}

// finishedLines waits until all calls have ended and returns their lines.
func finishedLines(p *rig.LocalEdge) []line {
	p.AccessLinesWhenIdle()
	return lines(p)
}

func last(p *rig.LocalEdge) line {
	all := finishedLines(p)
	return all[len(all)-1]
}

// turn returns the request body for one turn of a conversation.
func turn(conversation, turn int, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"model":"sim","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"conversation %d"}`, conversation)
	for i := range turn {
		fmt.Fprintf(&b, `,{"role":"assistant","content":"answer %d"},{"role":"user","content":"and %d?"}`, i, i)
	}
	return b.String() + "]" + more + "}"
}

// TestArms checks that a share of the conversations goes to an arm, each with all its turns, at
// every edge and with every policy.
func TestArms(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"least_loaded", "prefix_affinity"} {
		t.Run(policy, func(t *testing.T) {
			edges := startArms(t, 2, "30%", "policy: "+policy)
			const conversations = 40
			at := map[int]string{}
			for turns := range 3 {
				for n := range conversations {
					p := edges[(n+turns)%2]
					p.Post(chatPath, turn(n, turns, "")).WantStatus(200)
					got := last(p)
					if want := map[string]string{"old": "-", "new": "new"}[got.Upstream]; got.Arm != want || got.MissedArm != "" {
						t.Errorf("the log has %+v", got)
					}
					if turns > 0 && got.Upstream != at[n] {
						t.Errorf("conversation %d has left %s for %s", n, at[n], got.Upstream)
					}
					at[n] = got.Upstream
				}
			}
			news := 0
			for _, u := range at {
				if u == "new" {
					news++
				}
			}
			if news < conversations/10 || news > conversations/2 {
				t.Errorf("%d of %d conversations are of the arm", news, conversations)
			}
			calls := 0.0
			for _, p := range edges {
				calls += p.Metric("penstock_arm_calls_total", "model", "sim", "arm", "new")
			}
			if int(calls) != 3*news {
				t.Errorf("%v calls of the arm are counted, of %d", calls, 3*news)
			}
		})
	}
}

// findConversations returns a conversation that is assigned to the arm and a conversation that is not.
func findConversations(p *rig.LocalEdge) (own, other int) {
	own, other = -1, -1
	for n := 0; own < 0 || other < 0; n++ {
		p.Post(chatPath, turn(n, 0, "")).WantStatus(200)
		if last(p).Upstream == "new" {
			own = n
		} else {
			other = n
		}
	}
	return own, other
}

const endlessMembers = `,"stream":true,"sim":{"tokens":100000,"delay_ms":200}`

// TestArmIsFull checks that calls assigned to a full arm go to the other deployments, and that the
// log still shows which calls these are. If the other deployments are full, calls assigned to them
// must receive a 429, even if the arm has free slots.
func TestArmIsFull(t *testing.T) {
	t.Parallel()
	p := startArms(t, 1, "50%", "")[0]
	own, other := findConversations(p)
	var held []*rig.Stream
	for range 2 {
		held = append(held, p.OpenStream(chatPath, turn(own, 0, endlessMembers)))
	}
	ended := len(lines(p))
	p.Post(chatPath, turn(own, 0, "")).WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the call is in the log", func() bool { return len(lines(p)) > ended })
	if got := lines(p)[ended]; got.Upstream != "old" || got.Arm != "-" || got.MissedArm != "new" {
		t.Errorf("the log has %+v", got)
	}
	if n := p.Metric("penstock_arm_missed_calls_total", "model", "sim", "arm", "new"); n != 1 {
		t.Errorf("%v calls have missed the arm", n)
	}
	held[0].Disconnect()
	held[1].Disconnect()
	rig.WaitFor(t, rig.WaitTimeout, "the slots are free", func() bool { return p.Status().CountCalls("streaming") == 0 })
	for i := range held {
		held[i] = p.OpenStream(chatPath, turn(other, 0, endlessMembers))
	}
	rig.WaitFor(t, rig.WaitTimeout, "the catalog has the slots that any call may have", func() bool {
		c := p.Catalog()[0].Capacity
		return c.Total == 2 && c.Available == 0
	})
	refused := func(conversation int) line {
		t.Helper()
		ended := len(lines(p))
		p.Post(chatPath, turn(conversation, 0, "")).WantError(429, "rate_limit_error", "capacity_full")
		rig.WaitFor(t, rig.WaitTimeout, "the call is in the log", func() bool { return len(lines(p)) > ended })
		return lines(p)[ended]
	}
	if got := refused(other); got.Arm != "-" || got.MissedArm != "" {
		t.Errorf("the log has %+v of a refused call of the rest", got)
	}
	p.Post(chatPath, turn(own, 0, "")).WantStatus(200)
	for range 2 {
		held = append(held, p.OpenStream(chatPath, turn(own, 0, endlessMembers)))
	}
	before := p.Metric("penstock_arm_calls_total", "model", "sim", "arm", "new")
	for range 3 {
		if got := refused(own); got.Arm != "new" || got.MissedArm != "" || got.Upstream != "-" {
			t.Errorf("the log has %+v of a refused call of the arm", got)
		}
	}
	// The arm has refused these three calls, and an earlier call that the other deployments
	// answered.
	for arm, want := range map[string]float64{"new": 1 + 3, "-": 1} {
		if n := p.Metric("penstock_arm_refused_calls_total", "model", "sim", "arm", arm); n != want {
			t.Errorf("%v calls of %s are counted as refused, want %v", n, arm, want)
		}
	}
	if n := p.Metric("penstock_arm_calls_total", "model", "sim", "arm", "new"); n != before {
		t.Errorf("%v calls ended at the arm that it was not asked for", n-before)
	}
	for _, s := range held {
		s.Disconnect()
	}
}

// TestArmQueues checks that a waiting call is woken only by a slot that it may use.
func TestArmQueues(t *testing.T) {
	t.Parallel()
	p := startArms(t, 1, "50%", "queue: { depth: 8, wait: 10m }")[0]
	own, other := findConversations(p)
	var held []*rig.Stream
	for range 2 {
		held = append(held, p.OpenStream(chatPath, turn(other, 0, endlessMembers)))
	}
	waiting := func(n float64) func() bool {
		return func() bool { return p.Metric("penstock_model_queue_waiting", "model", "sim") == n }
	}
	var waits sync.WaitGroup
	waits.Go(func() { p.Post(chatPath, turn(other, 1, "")).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "one waits", waiting(1))
	p.Post(chatPath, turn(own, 0, "")).WantStatus(200) // overtakes the waiting call in the queue
	if !waiting(1)() {
		t.Error("the call of no arm waits no more")
	}
	held[0].Disconnect()
	waits.Wait()
	held[1].Disconnect()
	for _, c := range finishedLines(p) {
		if want := map[string]string{"old": "-", "new": "new"}[c.Upstream]; c.Arm != want || c.MissedArm != "" {
			t.Errorf("the log has %+v", c)
		}
	}
}

// runClients runs clients, each with a different conversation, until stop is called. No call may
// fail.
func runClients(p *rig.LocalEdge, clients int) (stop func()) {
	var all sync.WaitGroup
	var ended atomic.Bool
	for n := range clients {
		all.Go(func() {
			for !ended.Load() {
				p.Post(chatPath, turn(n, 0, `,"sim":{"tokens":3,"delay_ms":5}`)).WantStatus(200)
			}
		})
	}
	return func() {
		ended.Store(true)
		all.Wait()
	}
}

// TestArmFalls stops and restarts the arm under load, and then the other deployments. It checks
// that no client notices.
func TestArmFalls(t *testing.T) {
	t.Parallel()
	p := startArms(t, 1, "50%", "queue: { depth: 64, wait: 60s }")[0]
	stop := runClients(p, 8)
	more := func(i int) func() bool {
		n := p.Engines[i].Stats().Completed + 20
		return func() bool { return p.Engines[i].Stats().Completed >= n }
	}
	for i, e := range slices.Backward(p.Engines) {
		for j := range p.Engines {
			rig.WaitFor(t, rig.WaitTimeout, "both work", more(j))
		}
		e.Unlisten()
		e.DropConns(1, true)
		rig.WaitFor(t, rig.WaitTimeout, "the other one works", more(1-i))
		if err := e.Relisten(); err != nil {
			t.Fatal(err)
		}
		rig.WaitFor(t, rig.WaitTimeout, "it is back", more(i))
	}
	stop()
}

// TestSharesReload changes an arm's share with a reload, and then removes the arm. It checks that
// no call is lost.
func TestSharesReload(t *testing.T) {
	t.Parallel()
	p := startArms(t, 1, "10%", "queue: { depth: 64, wait: 60s }")[0]
	stop := runClients(p, 4)
	for _, traffic := range []string{"100%", "0%", "50%"} {
		p.Reload(armsSetup(traffic, "queue: { depth: 64, wait: 60s }"))
		if arms := p.Status().Models[0].Arms; len(arms) != 1 || fmt.Sprintf("%.0f%%", 100*arms[0].Share) != traffic {
			t.Errorf("the state page has %+v", arms)
		}
		at := len(lines(p))
		rig.WaitFor(t, rig.WaitTimeout, "calls end", func() bool { return len(lines(p)) > at+40 })
		for _, c := range lines(p)[at+8:] {
			if traffic == "100%" && c.Upstream != "new" && c.MissedArm == "" || traffic == "0%" && c.Upstream != "old" {
				t.Errorf("with %s the log has %+v", traffic, c)
			}
		}
	}
	stop()
}

// TestCountsAreOfArms checks that a count_tokens request goes to an engine in the conversation's
// arm.
func TestCountsAreOfArms(t *testing.T) {
	t.Parallel()
	s := armsSetup("0%", "")
	s.Config = strings.ReplaceAll(s.Config, "engine: sim", "engine: vllm")
	p := rig.Start(t, s)
	for i := range 20 {
		p.Post("/v1/messages/count_tokens", fmt.Sprintf(`{"model":"sim","messages":[{"role":"user","content":"%d"}]}`, i)).WantStatus(200)
	}
	asked := 0
	for _, l := range finishedLines(p) {
		if l.Upstream == "old" {
			asked++
		} else if l.Upstream != "" {
			t.Errorf("%s was asked for a count, an arm without calls", l.Upstream)
		}
	}
	if asked == 0 {
		t.Error("no engine was asked: the test proves nothing")
	}
}
