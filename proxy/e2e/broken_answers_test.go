package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// brokenAnswers are faults that make an engine start every answer but complete none.
var brokenAnswers = []string{"error-in-stream=3", "cut-after=4", "reset-after=4", "no-finish"}

// TestEngineThatBreaksEveryAnswer checks that an engine that aborts every answer is taken out of
// service within two seconds, because the edge's probe also fails.
func TestEngineThatBreaksEveryAnswer(t *testing.T) {
	t.Parallel()
	for _, fault := range brokenAnswers {
		for _, clients := range []string{"six keys", "one key", "no keys"} {
			t.Run(fault+", "+clients, func(t *testing.T) {
				t.Parallel()
				s := rig.Setup{Upstream: rig.QuietProbes}
				var headers [][]string
				switch clients {
				case "no keys":
					s.Top = "auth: none"
				case "six keys":
					for i := range 5 {
						key, hash, _ := auth.NewKey()
						s.Keys += fmt.Sprintf("- { id: other%d, hash: %q }\n", i, hash)
						headers = append(headers, []string{"Authorization: Bearer " + key})
					}
				}
				headers = append(headers, nil)
				p := start(t, s)
				p.Post(chatPath, p.ChatRequest(`"stream":true`)).WantStatus(200)
				p.Engines[0].SetFault(sim.Fault{Spec: fault})
				over := make(chan struct{})
				var wait sync.WaitGroup
				for _, header := range headers {
					wait.Go(func() {
						repeatUntil(over, func() {
							if p.Upstream("up-0").Breaker == "closed" {
								p.Post(chatPath, p.ChatRequest(`"stream":true,"max_tokens":20`), header...)
							}
						})
					})
				}
				defer wait.Wait()
				end := sync.OnceFunc(func() { close(over) })
				defer end()
				rig.WaitFor(t, 2*time.Second, "the engine is out of use", func() bool { return p.Upstream("up-0").Breaker != "closed" })
				end()
				wait.Wait()
				p.Engines[0].SetFault()
				rig.WaitFor(t, rig.WaitTimeout, "the engine serves again", func() bool {
					return p.Post(chatPath, p.ChatRequest(`"stream":true`), headers[0]...).Status == 200 && p.Upstream("up-0").Breaker == "closed"
				})
			})
		}
	}
}

// TestBrokenTrialFails checks that an aborted answer counts as a failed trial, which makes the
// pause before the next trial longer.
func TestBrokenTrialFails(t *testing.T) {
	t.Parallel()
	for _, fault := range brokenAnswers {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p, other := twoKeys(t, rig.Setup{Upstream: rig.QuietProbes})
			p.Engines[0].SetFault(sim.Fault{Spec: fault})
			failed := func() float64 {
				return p.Metric("penstock_upstream_attempts_total", `result="bad_response"`) + p.Metric("penstock_upstream_generation_probes_total", `result="failed"`)
			}
			closed, asked := time.Now(), time.Now() // closed: a time at which the breaker was certainly closed
			rig.WaitFor(t, rig.WaitTimeout, "the breaker opens", func() bool {
				closed, asked = asked, time.Now()
				p.Post(chatPath, p.ChatRequest(`"stream":true`))
				return p.Upstream("up-0").Breaker != "closed"
			})
			// Trials follow after 1 s and then 2 s, and the breaker does not close between them.
			before := failed()
			rig.WaitFor(t, 3*time.Second+rig.WaitTimeout, "two trials have failed", func() bool {
				if p.Upstream("up-0").Breaker == "closed" {
					t.Fatal("the breaker is closed, and the engine ends no answer")
				}
				other(`"stream":true`)
				return failed()-before >= 2
			})
			if took := time.Since(closed); took < 3*time.Second {
				t.Errorf("two trials within %v", took)
			}
		})
	}
}

// TestOneClientsFailuresWithAGoodEngine checks an engine that fails every call of one client, while
// another engine works. The failing engine must be taken out of service after a few hundred calls.
// Routing avoids the engine after its first failures, so only a few of the calls reach it.
func TestOneClientsFailuresWithAGoodEngine(t *testing.T) {
	t.Parallel()
	for _, atATime := range []int{4, 8} {
		t.Run(fmt.Sprint(atATime, " at a time"), func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: make([]sim.Options, 2), Upstream: rig.QuietProbes})
			p.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
			rig.WaitFor(t, rig.WaitTimeout, "the first failure", func() bool {
				p.Post(chatPath, p.ChatRequest(""))
				return p.Metric("penstock_upstream_attempts_total", `result="bad_response"`) > 0
			})
			var wait sync.WaitGroup
			var calls atomic.Int32
			for range atATime {
				wait.Go(func() {
					for calls.Add(1) <= int32(100*atATime) && p.Upstream("up-0").Breaker == "closed" {
						p.Post(chatPath, p.ChatRequest(""))
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			wait.Wait()
			if p.Upstream("up-0").Breaker == "closed" {
				t.Error("the engine is still in use")
			}
		})
	}
}
