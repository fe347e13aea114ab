package status

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/goccy/go-yaml"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/telemetry/observe"
	"penstock/upstreams"
)

// simulatedEdge simulates the ends of calls at an edge with two models and two upstreams.
type simulatedEdge struct {
	calls  *observe.Calls
	models []Model
}

func newDesk() *simulatedEdge {
	d := &simulatedEdge{calls: observe.NewCalls(metrics.NewSet(), zap.NewNop(), config.Log{})}
	d.calls.SetConfigured([]string{"qwen", "gemma"}, []string{"tgi-1", "tgi-2"}, nil)
	full := map[string]Pool{"text": {Active: 2, Total: 2}}
	d.models = []Model{{ID: "qwen", Ready: true, Pools: full, Slots: Slots{2, 2}}, {ID: "gemma", Ready: true, Pools: full, Slots: Slots{2, 2}}}
	return d
}

func (d *simulatedEdge) currentStatus() *Status {
	s := &Status{Now: time.Now(), Models: slices.Clone(d.models)}
	for _, name := range []string{"tgi-1", "tgi-2"} {
		s.Upstreams = append(s.Upstreams, Upstream{Status: upstreams.Status{Name: name, Label: name, State: "up", Mode: "ready", Breaker: "closed"}})
	}
	s.addCallSummary(d.calls.Summary(s.Now))
	s.SetVerdict(nil)
	return s
}

// endCall simulates the end of one call. The call is a successful stream unless change modifies it.
func (d *simulatedEdge) endCall(model, upstream string, change func(*observe.Record)) {
	r := &observe.Record{
		Dialect: "chat", Model: model, Upstream: upstream, Key: "team-a", Start: time.Now().Add(-2 * time.Second), Stream: true, Status: 200, Attempts: 1,
		Outcome: observe.OutcomeOK, PromptTokens: 100, CompletionTokens: 50, TTFT: 400 * time.Millisecond, UpstreamTTFT: 390 * time.Millisecond,
	}
	if change != nil {
		change(r)
	}
	if r.Outcome.Failed() && r.Attempts > 0 { // each failed call has a failed attempt
		r.Failed = append(r.Failed, observe.FailedAttempt{Upstream: upstream, Cause: r.Cause, Fault: true})
	}
	d.calls.BeginCall()
	d.calls.FinishCall(r, time.Now())
}

func breakStream(r *observe.Record) {
	r.Outcome, r.Code, r.Cause, r.Committed = observe.OutcomeStreamBroken, "upstream_bad_response", "truncated", true
}

func refuseFull(r *observe.Record) {
	r.Outcome, r.Code, r.Status, r.Attempts, r.Upstream, r.Key, r.Stream = observe.OutcomeLimited, "capacity_full", 429, 0, "", "team-b", false
}

// healthySecond simulates one second of a healthy edge. Occasionally a client disconnects or sends
// an invalid request, a key reaches its limit, and a call waits or is slow. Once in a minute a call
// fails.
func (d *simulatedEdge) healthySecond(second int) {
	for i := range 2 {
		d.endCall("qwen", []string{"tgi-1", "tgi-2"}[i], nil)
		d.endCall("gemma", "tgi-2", func(r *observe.Record) { r.Queue = 200 * time.Millisecond })
	}
	odd := map[int]func(*observe.Record){
		3: func(r *observe.Record) { r.Outcome, r.Phase = observe.OutcomeClientGone, observe.PhaseStreaming },
		7: func(r *observe.Record) {
			r.Outcome, r.Code, r.Status = observe.OutcomeClientError, "invalid_value", 400
		},
		12: func(r *observe.Record) { refuseFull(r); r.Code, r.Limit = "rate_limited", "requests_per_minute" },
		13: refuseFull,
		25: breakStream,
		40: func(r *observe.Record) { r.UpstreamTTFT, r.Queue = 9*time.Second, 3*time.Second },
		50: breakStream,
	}[second%60]
	if odd != nil {
		d.endCall("qwen", "tgi-1", odd)
	}
}

// TestNoProblemsWhenHealthy checks that there is no alarm in any second of ten healthy minutes.
func TestNoProblemsWhenHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		for second := range 600 {
			d.healthySecond(second)
			if s := d.currentStatus(); s.Verdict.Level != LevelOK || s.Models[0].State != ModelServed {
				t.Fatalf("after %d s: verdict %+v, troubles %q; want healthy and served", second, s.Verdict, s.Models[0].Troubles)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestVerdictByOutcomes checks that each sentence appears within a minute after the problem starts,
// and disappears within a minute after the problem ends.
func TestVerdictByOutcomes(t *testing.T) {
	slow := func(r *observe.Record) { r.UpstreamTTFT = 7 * time.Second }
	waits := func(r *observe.Record) { r.Queue = 4 * time.Second }
	down := func(r *observe.Record) {
		r.Outcome, r.Code, r.Status, r.Attempts, r.Upstream, r.Stream = observe.OutcomeNoRoute, "no_healthy_route", 503, 0, "", false
	}
	timeout := func(r *observe.Record) {
		r.Outcome, r.Code, r.Cause, r.Status = observe.OutcomeTimeout, "upstream_timeout", "idle_timeout", 504
	}
	for _, c := range []struct {
		name   string
		second func(d *simulatedEdge, second int) // simulates one second of the problem
		want   string                             // the sentence after a minute of the problem
		state  string                             // expected state of the model qwen
	}{
		{"a share fails on one upstream", func(d *simulatedEdge, _ int) { d.endCall("qwen", "tgi-1", breakStream) }, "qwen fails 33 % of its calls (60 of 180 in the last minute), all on tgi-1 (answer cut off)", ModelDegraded},
		{"most fail on one", func(d *simulatedEdge, second int) {
			d.endCall("qwen", "tgi-1", breakStream)
			if second%3 == 0 {
				d.endCall("qwen", "tgi-2", timeout)
			}
		}, ", most on tgi-1 (answer cut off)", ModelDegraded},
		{"they fail here and there", func(d *simulatedEdge, _ int) {
			d.endCall("qwen", "tgi-1", timeout)
			d.endCall("qwen", "tgi-2", timeout)
		}, "Failing: qwen fails 50 % of its calls (120 of 240 in the last minute), on 2 upstreams (stream silent for too long)", ModelFailing},
		{"no upstream is asked", func(d *simulatedEdge, _ int) { d.endCall("qwen", "", down) }, "most before an upstream was asked (no healthy route)", ModelDegraded},
		{"an upstream of many fails", func(d *simulatedEdge, second int) {
			for range 30 {
				d.endCall("qwen", "tgi-2", nil)
			}
			if second%4 == 0 {
				d.endCall("qwen", "tgi-1", breakStream)
			}
		}, "tgi-1 fails 20 % of what it is asked (15 of 75 in the last minute; answer cut off)", ModelServed},
		{"retries hide what an upstream fails", func(d *simulatedEdge, second int) {
			d.endCall("qwen", "tgi-2", func(r *observe.Record) {
				r.Attempts, r.Failed = 2, []observe.FailedAttempt{{Upstream: "tgi-1", Cause: "status", EngineStatus: 500, Fault: true}}
			})
		}, "tgi-1 fails 50 % of what it is asked (60 of 120 in the last minute, 60 of them hidden by retries; status 500): " +
			"see its log, or take it out (penstock drain tgi-1). Every model is served.", ModelServed},
		{"the reason is that of the place", func(d *simulatedEdge, second int) {
			d.endCall("qwen", "tgi-1", []func(*observe.Record){breakStream, timeout}[second%2])
			if second%3 > 0 {
				d.endCall("qwen", "", down)
			}
		}, ", most on tgi-1 (answer cut off)", ModelDegraded},
		{"a status has its number", func(d *simulatedEdge, _ int) {
			d.endCall("qwen", "tgi-1", func(r *observe.Record) {
				r.Outcome, r.Code, r.Cause, r.EngineStatus = observe.OutcomeUpstreamFail, "upstream_failed", "status", 500
			})
		}, "all on tgi-1 (status 500)", ModelDegraded},
		{"a model is full", func(d *simulatedEdge, _ int) {
			for range 18 {
				d.endCall("qwen", "", refuseFull)
			}
		}, "qwen is full for 90 % of its calls (1080 of 1200 in the last minute): all 2 slots are in use, most calls are of team-b", ModelFailing},
		{"engines are full", func(d *simulatedEdge, _ int) {
			d.endCall("qwen", "tgi-1", func(r *observe.Record) {
				refuseFull(r)
				r.Attempts, r.Upstream = 1, "tgi-1"
			})
		}, "qwen is full for 33 % of its calls", ModelDegraded},
		{"calls wait", func(d *simulatedEdge, _ int) { d.endCall("qwen", "tgi-1", waits) }, "qwen keeps calls waiting ", ModelDegraded},
		{"first tokens are late", func(d *simulatedEdge, _ int) { d.endCall("qwen", "tgi-1", slow) }, "to its first token (p95)", ModelDegraded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
				run := func(seconds int, each func(second int)) *Status {
					for second := range seconds {
						d.endCall("qwen", "tgi-1", nil)
						d.endCall("qwen", "tgi-2", nil)
						d.endCall("gemma", "tgi-2", nil)
						each(second)
						time.Sleep(time.Second)
					}
					return d.currentStatus()
				}
				run(60, func(int) {})
				if v := d.currentStatus().Verdict; v.Level != LevelOK {
					t.Fatalf("verdict before = %+v, want healthy", v)
				}
				var s *Status
				run(60, func(second int) {
					c.second(d, second)
					s = d.currentStatus()
				})
				level := LevelDegraded
				if c.state == ModelFailing {
					level = LevelFailing
				}
				if s.Verdict.Level != level || !strings.Contains(s.Verdict.Text, c.want) || s.Models[0].State != c.state {
					t.Errorf("in trouble: %s, %+v, want %q", s.Models[0].State, s.Verdict, c.want)
				}
				if s.Models[1].State != ModelServed || strings.Contains(s.Verdict.Text, "gemma") {
					t.Errorf("the other model: %+v, %s", s.Models[1], s.Verdict.Text)
				}
				if served := strings.Contains(s.Verdict.Text, "Every model is served."); served != (c.state == ModelServed) {
					t.Errorf("the end of the sentence: %s", s.Verdict.Text)
				}
				if v := run(61, func(int) {}).Verdict; v.Level != LevelOK {
					t.Errorf("a minute after: %+v", v)
				}
			})
		})
	}
}

// TestFullWhileBusy checks a model that has free slots, but is full because its engines do not
// answer probes. The sentence must not blame the number of slots.
func TestFullWhileBusy(t *testing.T) {
	for _, c := range []struct {
		states [2]string
		active int
		want   string
	}{
		{[2]string{"up", "up"}, 1, "1 of 2 slots are in use now"},
		{[2]string{"busy", "up"}, 1, "no new calls go to a, which does not answer its probes"},
		{[2]string{"busy", "busy"}, 1, "no new calls go to a, b, which do not answer their probes"},
		{[2]string{"busy", "up"}, 2, "all 2 slots are in use"},
	} {
		m := Model{ID: "m", Pools: map[string]Pool{"text": {Active: c.active, Total: 2}}, Slots: Slots{c.active, 2}, Targets: []Target{{Upstream: "a"}, {Upstream: "b"}}}
		s := &Status{Models: []Model{m}}
		for i, label := range []string{"a", "b"} {
			s.Upstreams = append(s.Upstreams, Upstream{Status: upstreams.Status{Label: label, State: c.states[i], Mode: "ready"}})
		}
		if got := s.slotsText(&m); got != c.want {
			t.Errorf("%v, %d in use: %q, want %q", c.states, c.active, got, c.want)
		}
	}
}

// TestFewAreNoTrouble checks that two failed calls to an otherwise unused model, or one slow call,
// cause no alarm, and that a third failed call causes one.
func TestFewAreNoTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		for n := 1; n <= Thresholds.Failed.Least; n++ {
			d.endCall("qwen", "tgi-1", breakStream)
			want := LevelOK
			if n == Thresholds.Failed.Least {
				want = LevelDegraded
			}
			if v := d.currentStatus().Verdict; v.Level != want {
				t.Errorf("after %d failed calls: %+v", n, v)
			}
		}
	})
}

// thresholdPattern matches a threshold in the expression of an alert.
var thresholdPattern = regexp.MustCompile(`(?:>=|>) ([0-9.]+)`)

// TestAlertsHaveTheBounds checks that the alerts use the verdict's thresholds and count the same
// outcomes as failed.
func TestAlertsHaveTheBounds(t *testing.T) {
	text, err := os.ReadFile("../../../.deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	expr := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			expr[r.Alert] = r.Expr
		}
	}
	for _, b := range []Threshold{Thresholds.Failed, Thresholds.Attempts, Thresholds.Full, Thresholds.TTFT, Thresholds.Queue} {
		var got []string
		for _, m := range thresholdPattern.FindAllStringSubmatch(expr[b.Alert], -1) {
			got = append(got, m[1])
		}
		want := []string{strconv.FormatFloat(b.Most, 'g', -1, 64), strconv.Itoa(b.Least)}
		if !slices.Equal(got, want) {
			t.Errorf("%s compares with %q, and the verdict with %q:\n%s", b.Alert, got, want, expr[b.Alert])
		}
	}
	if results := regexp.MustCompile(`result=~"([a-z_|]+)"`).FindStringSubmatch(expr[Thresholds.Attempts.Alert]); results == nil {
		t.Errorf("%s counts no results", Thresholds.Attempts.Alert)
	} else {
		for o := upstreams.OutcomeOK; o <= upstreams.OutcomeHandedOver; o++ {
			if slices.Contains(strings.Split(results[1], "|"), o.String()) != o.IsFailure() {
				t.Errorf("%s: a fault for the alert: %v, for the verdict: %v", o, !o.IsFailure(), o.IsFailure())
			}
		}
	}
	outcomes := regexp.MustCompile(`outcome=~"([a-z_|]+)"`).FindStringSubmatch(expr[Thresholds.Failed.Alert])
	if outcomes == nil {
		t.Fatalf("%s counts no outcomes", Thresholds.Failed.Alert)
	}
	counted := strings.Split(outcomes[1], "|")
	for _, o := range []observe.Outcome{
		observe.OutcomeOK, observe.OutcomeClientError, observe.OutcomeLimited, observe.OutcomeNoRoute, observe.OutcomeUpstreamFail, observe.OutcomeStreamBroken,
		observe.OutcomeTimeout, observe.OutcomeClientGone, observe.OutcomeDrained, observe.OutcomeInternal,
	} {
		if slices.Contains(counted, string(o)) != o.Failed() {
			t.Errorf("%s: failed for the alert: %v, for the verdict: %v", o, !o.Failed(), o.Failed())
		}
	}
}
