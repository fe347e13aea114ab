package tiers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/admin"
	"penstock/proxy/operate/canary"
)

// canaryEdge starts an edge with an arm for half of the conversations. old and fresh are the TTFTs
// of the two engines.
func canaryEdge(t *testing.T, old, fresh time.Duration) *rig.LocalEdge {
	t.Helper()
	s := armsSetup("50%", "")
	s.Config = strings.ReplaceAll(s.Config, "concurrency: 2", "concurrency: 64")
	s.Engines[0].Latency, s.Engines[1].Latency = old, fresh
	return rig.Start(t, s)
}

// stream makes streamed calls, each for a new conversation.
func stream(p *rig.LocalEdge, from, calls int) {
	var clients sync.WaitGroup
	next := make(chan int)
	for range 12 {
		clients.Go(func() {
			for n := range next {
				p.Post(chatPath, turn(n, 0, `,"stream":true,"sim":{"tokens":5,"delay_ms":10}`)).WantStatus(200)
			}
		})
	}
	for n := range calls {
		next <- from + n
	}
	close(next)
	clients.Wait()
	p.AccessLinesWhenIdle()
}

// compare returns the result of `penstock canary` and its exit code.
func compare(t *testing.T, p *rig.LocalEdge, model string) (c []canary.Comparison, code int, err error) {
	t.Helper()
	return compareArms(t, p, model, "new")
}

// compareArms is like compare, but for any arm.
func compareArms(t *testing.T, p *rig.LocalEdge, model, arm string) (c []canary.Comparison, code int, err error) {
	t.Helper()
	o := admin.CanaryOptions{Edge: admin.Edge{Admin: p.Admin, Token: rig.AdminToken}, Model: model, JSON: true}
	var out, text bytes.Buffer
	err = admin.CompareCanary(t.Context(), o, &out)
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		return nil, 1, err
	}
	if err := json.Unmarshal(out.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	o.JSON = false
	_ = admin.CompareCanary(t.Context(), o, &text)
	if last := "\n" + arm + ": " + string(c[0].Verdict) + "\n"; !strings.HasSuffix(text.String(), last) || !strings.Contains(text.String(), "ttft p50") {
		t.Errorf("it prints %s", &text)
	}
	return c, code, nil
}

// TestCanary checks that an arm with a longer time to first token is judged worse, and that a few
// calls are not enough for a verdict.
func TestCanary(t *testing.T) {
	t.Parallel()
	p := canaryEdge(t, 200*time.Millisecond, 600*time.Millisecond)
	stream(p, 0, 20)
	if c, code, err := compare(t, p, "sim"); err != nil || code != 4 || c[0].Verdict != canary.VerdictUnknown || c[0].Calls+c[0].Rest != 20 {
		t.Errorf("after 20 calls: %+v, %d, %v", c, code, err)
	}
	stream(p, 20, 180)
	c, code, err := compare(t, p, "sim")
	if err != nil || code != 3 || c[0].Verdict != canary.VerdictWorse || c[0].Rows[0].Verdict != canary.VerdictWorse {
		t.Errorf("after 200 calls: %+v, %d, %v", c, code, err)
	}
	for _, r := range c[0].Rows {
		if r.Measure == "ends by stop" && *r.Arm != 1 {
			t.Errorf("%v of the answers end by stop", *r.Arm)
		}
	}
	if _, _, err := compare(t, p, "other"); err == nil || !strings.Contains(err.Error(), "there is no model other at ") {
		t.Errorf("of another model: %v", err)
	}
}

// TestCanaryIsInterrupted checks that, if `penstock canary` is interrupted while it waits, it
// compares the calls since it started.
func TestCanaryIsInterrupted(t *testing.T) {
	t.Parallel()
	p := canaryEdge(t, 0, 0)
	stream(p, 0, 20)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out bytes.Buffer
	err := admin.CompareCanary(ctx, admin.CanaryOptions{Edge: admin.Edge{Admin: p.Admin, Token: rig.AdminToken}, Model: "sim", For: time.Hour}, &out)
	var exit interface{ ExitCode() int }
	if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.HasPrefix(out.String(), "sim: new has had 0 calls, the rest 0\n") {
		t.Errorf("canary: %v, want code 4 and no calls: %s", err, &out)
	}
}

// TestCanaryFails checks that an arm with failed calls is judged worse, even if other deployments
// answer these calls and no client notices.
func TestCanaryFails(t *testing.T) {
	t.Parallel()
	p := canaryEdge(t, 0, 0)
	p.Engines[1].SetFault(sim.Fault{Spec: "status=503", Share: 0.3})
	stream(p, 0, 200)
	c, code, err := compare(t, p, "sim")
	if err != nil || code != 3 || c[0].Verdict != canary.VerdictWorse {
		t.Errorf("canary = %+v, code %d, %v; want worse and code 3", c, code, err)
	}
}
