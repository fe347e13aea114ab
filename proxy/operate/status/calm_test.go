package status

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// TestCalmAtEachBound checks that values just below a threshold cause no alarm in ten minutes, and
// that values just above it cause an alarm within a minute.
func TestCalmAtEachBound(t *testing.T) {
	slow := func(r *observe.Record) { r.UpstreamTTFT = 7 * time.Second }
	waits := func(r *observe.Record) { r.Queue = 4 * time.Second }
	mild := func(r *observe.Record) { r.UpstreamTTFT, r.Queue = 1700*time.Millisecond, 800*time.Millisecond }
	one := func(every int, change func(*observe.Record)) func(d *simulatedEdge, second int) {
		return func(d *simulatedEdge, second int) {
			if second%every == 0 {
				d.endCall("qwen", "tgi-1", change)
			}
		}
	}
	all := func(change func(*observe.Record)) func(d *simulatedEdge, second int) {
		return func(d *simulatedEdge, _ int) { d.endCall("qwen", "tgi-1", change) }
	}
	for _, c := range []struct {
		name         string
		good         int // additional successful streams per second
		below, above func(d *simulatedEdge, second int)
		want         string
	}{
		{"two of a silent model fail", 0, one(30, breakStream), one(20, breakStream), "qwen fails 100 %"},
		{"a fiftieth fails", 2, one(30, breakStream), one(15, breakStream), "qwen fails 3 %"},
		{"two of a silent model are refused", 0, one(30, refuseFull), one(20, refuseFull), "qwen is full for 100 %"},
		{"a twentieth is refused", 2, one(12, refuseFull), one(6, refuseFull), "qwen is full for 7 %"},
		{"four wait of a silent model", 0, one(15, waits), one(12, waits), "qwen keeps calls waiting "},
		{"a twentieth waits long", 0, func(d *simulatedEdge, second int) {
			if d.endCall("qwen", "tgi-1", mild); second%30 == 0 {
				d.endCall("qwen", "tgi-1", waits)
			}
		}, func(d *simulatedEdge, second int) {
			if d.endCall("qwen", "tgi-1", mild); second%6 == 0 {
				d.endCall("qwen", "tgi-1", waits)
			}
		}, "qwen keeps calls waiting "},
		{"nineteen are slow", 0, func(d *simulatedEdge, second int) {
			if second%60 < 19 {
				d.endCall("qwen", "tgi-1", slow)
			}
		}, func(d *simulatedEdge, second int) {
			if second%60 < 20 {
				d.endCall("qwen", "tgi-1", slow)
			}
		}, "to its first token (p95)"},
		{"all are a little slow", 0, all(mild), all(slow), "to its first token (p95)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				second := 0
				play := func(seconds int, each func(d *simulatedEdge, second int), look func(*Status)) {
					for range seconds {
						for range c.good {
							d.endCall("qwen", "tgi-2", nil)
						}
						each(d, second)
						look(d.currentStatus())
						second++
						time.Sleep(time.Second)
					}
				}
				play(60, func(d *simulatedEdge, _ int) { d.endCall("qwen", "tgi-2", nil) }, func(*Status) {})
				play(60, c.below, func(*Status) {}) // let the calls of the previous case expire
				play(600, c.below, func(s *Status) {
					if s.Verdict.Level != LevelOK {
						t.Fatalf("verdict after %d s = %s, want healthy", second, s.Verdict.Text)
					}
				})
				said := ""
				play(62, c.above, func(s *Status) {
					if s.Verdict.Level == LevelDegraded {
						said = s.Verdict.Text
					}
				})
				if !strings.Contains(said, c.want) {
					t.Errorf("above the bound: %q, want %q", said, c.want)
				}
			})
		})
	}
}

// TestBoundsAreBuckets checks that each threshold for a duration is a histogram bucket boundary,
// because quantiles are exact only at boundaries.
func TestBoundsAreBuckets(t *testing.T) {
	var page strings.Builder
	set := metrics.NewSet()
	d := &simulatedEdge{calls: observe.NewCalls(set, zap.NewNop(), config.Log{})}
	d.calls.SetConfigured([]string{"qwen"}, []string{"tgi-1"}, nil)
	d.endCall("qwen", "tgi-1", func(r *observe.Record) { r.Queue = time.Second })
	set.WritePrometheus(&page)
	for name, b := range map[string]Threshold{"ttft": Thresholds.TTFT, "queue": Thresholds.Queue} {
		bucket := regexp.MustCompile(fmt.Sprintf(`penstock_%s_seconds_bucket{[^}]*le="%g"}`, name, b.Most))
		if !bucket.MatchString(page.String()) {
			t.Errorf("there is no %s", bucket)
		}
	}
}

// TestSentencesOfStates checks that each sentence about a state appears in that state. For each
// sentence, it also simulates a similar but healthy state for ten minutes. In that state, the edge
// must count as healthy.
func TestSentencesOfStates(t *testing.T) {
	up := func(change func(u *Upstream)) func(*Status) { return func(s *Status) { change(&s.Upstreams[0]) } }
	failed := func(during string) *upstreams.LastFailure {
		return &upstreams.LastFailure{During: during, Reason: "connect"}
	}
	valid := func(from, to time.Duration) func(*Status) {
		return func(s *Status) { s.Certificate = CertificateOf(s.Started.Add(from), s.Started.Add(to)) }
	}
	store := func(answers, refuses bool, lost string) func(*Status) {
		return func(s *Status) {
			s.Fleet = &fleet.State{StoreAnswers: answers, StoreRefuses: refuses, WhenLost: lost}
		}
	}
	for _, c := range []struct {
		trouble, calm func(*Status)
		want          string
	}{
		{up(func(u *Upstream) { u.State, u.LastFailure = "down", failed("probe") }), up(func(u *Upstream) { u.LastFailure = failed("probe") }), "gpu is down"},
		{up(func(u *Upstream) { u.State = "pending" }), up(func(u *Upstream) { u.State = "up" }), "gpu has not been probed yet"},
		{up(func(u *Upstream) { u.State = "stalled" }), up(func(u *Upstream) { u.Progress = upstreams.ProgressStatus{Still: 100} }), "gpu has stalled"},
		{up(func(u *Upstream) { u.State = "down" }), up(func(u *Upstream) { u.State = "retiring" }), "gpu is down"},
		{up(func(u *Upstream) { u.State = "down" }), up(func(u *Upstream) { u.State = "busy" }), "gpu is down"},
		{up(func(u *Upstream) { u.Mode = "drain" }), up(func(u *Upstream) { u.Mode, u.State = "drain", "retiring" }), "gpu is in drain mode"},
		{up(func(u *Upstream) { u.Breaker, u.LastFailure = "open", failed("call") }), up(func(u *Upstream) { u.LastFailure = failed("call") }), "gpu answers its probes but fails its calls (no connection; breaker open)"},
		{up(func(u *Upstream) { u.Breaker = "half-open" }), up(func(u *Upstream) { u.Suspect = true }), "fails its calls (breaker half-open)"},
		{up(func(u *Upstream) { u.Missing = []string{"m"} }), up(func(u *Upstream) { u.Missing = []string{} }), "gpu does not serve m"},
		{
			up(func(u *Upstream) { u.Report, u.ReportAge = new(upstreams.LoadReport), lateReportSeconds }),
			up(func(u *Upstream) { u.Report, u.ReportAge = new(upstreams.LoadReport), lateReportSeconds-1 }), "the metrics of gpu were last read 1 min ago",
		},
		{
			up(func(u *Upstream) {
				u.State, u.Report, u.ReportAge = "busy", new(upstreams.LoadReport), lateReportSeconds
			}),
			up(func(u *Upstream) {
				u.Report, u.ReportAge, u.ReportFresh = new(upstreams.LoadReport), lateReportSeconds, true
			}), "the metrics of gpu were last read",
		},
		{valid(-time.Hour, 0), valid(0, time.Hour), "the certificate expired on "},
		{valid(time.Hour, 2*time.Hour), valid(-time.Hour, time.Hour), "the certificate is not valid before "},
		{func(s *Status) { s.Panicking = "stream" }, func(s *Status) { s.Panicking = "" }, "the edge panics repeatedly (stream)"},
		{func(s *Status) { s.Unsaved = maxUnsavedSeconds + 1 }, func(s *Status) { s.Unsaved = maxUnsavedSeconds }, "the ledger has not been written for "},
		{
			func(s *Status) {
				s.Discoveries = []Discovery{{upstreams.DiscoveryStatus{Source: "DNS", Stale: discoveryStaleSeconds}}}
			},
			func(s *Status) {
				s.Discoveries = []Discovery{{upstreams.DiscoveryStatus{Source: "DNS", Stale: discoveryStaleSeconds - 1}}}
			}, "DNS: 0 endpoints as of ",
		},
		{
			func(s *Status) { s.Issuers = []Issuer{{Name: "corp", Keys: 1, Trouble: "refused"}} },
			func(s *Status) { s.Issuers = []Issuer{{Name: "corp", Keys: 1, Failures: 3}} }, "issuer corp: 1 key as of ",
		},
		{
			func(s *Status) {
				s.Hooks = []Hook{{Name: "guard", Calls: 58, Undecided: 58, Cause: "hook_unreachable", Open: true}}
			},
			func(s *Status) { s.Hooks = []Hook{{Name: "guard", Calls: 1000, Undecided: 3, Cause: "hook_timeout"}} },
			"the hook guard gave no decision on 58 of 58 calls in the last minute (hook not reachable), so they passed unchecked",
		},
		{
			func(s *Status) { s.Hooks = []Hook{{Name: "guard", Calls: 40, Undecided: 3, Cause: "hook_timeout"}} },
			func(s *Status) { s.Hooks = []Hook{{Name: "guard", Calls: 2, Undecided: 2, Cause: "hook_timeout"}} },
			"gave no decision on 3 of 40 calls in the last minute (no decision in time), so they were refused",
		},
		{
			func(s *Status) {
				s.Copies = []Copies{{Hook: "archive", Calls: 58, Lost: 58, Why: "sink not reachable"}}
			},
			func(s *Status) {
				s.Copies = []Copies{{Hook: "archive", Calls: 1000, Lost: 3, Why: "sink not reachable"}}
			},
			"the hook archive lost the copies of 58 of 58 calls in the last minute (sink not reachable): see the sink's own log",
		},
		{store(false, false, "divide"), store(true, false, "divide"), "the fleet's store does not answer, so each edge allows its part"},
		{store(false, false, "open"), store(true, false, "open"), "no limits of keys are held"},
		{store(false, false, "closed"), store(true, false, "closed"), "calls of all keys are refused"},
		{store(false, true, "divide"), store(true, false, "divide"), "the fleet's store refuses this edge"},
		{func(s *Status) { s.LastReload = &Reload{} }, func(s *Status) { s.LastReload = &Reload{OK: true, Unchanged: true} }, "the configuration on disk is invalid"},
		{func(s *Status) { s.LastReload = &Reload{KeysInForce: true} }, func(s *Status) { s.LastReload = &Reload{OK: true, Restart: []string{"listen"}} }, "its keys are in force, its models are not"},
		{func(s *Status) { s.Models[0].Ready = false }, func(s *Status) { s.Models[0].Targets = []Target{{Upstream: "x", Why: "upstream is down"}} }, "no engine serves m"},
		{func(s *Status) { s.Draining = true }, func(s *Status) { s.InFlight = 1 }, "Shutting down: "},
	} {
		t.Run(c.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, w := time.Now(), new(StateWatch)
				look := func(change func(*Status)) Verdict {
					s := &Status{
						Now: time.Now(), Started: begun, Models: []Model{{ID: "m", Ready: true}},
						Upstreams: []Upstream{{Status: upstreams.Status{Name: "gpu", Label: "gpu", State: "up", Mode: "ready", Breaker: "closed"}}},
					}
					change(s)
					s.SetVerdict(w)
					return s.Verdict
				}
				for range 600 {
					if v := look(c.calm); v.Level != LevelOK {
						t.Fatalf("verdict after %v = %+v, want healthy", time.Since(begun), v)
					}
					time.Sleep(time.Second)
				}
				if v := look(c.trouble); v.Level == LevelOK || !strings.Contains(v.Text, c.want) {
					t.Errorf("in trouble: %+v", v)
				}
				if v := look(c.calm); v.Level != LevelOK {
					t.Errorf("when it is over: %+v", v)
				}
			})
		})
	}
}
