package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/result"
	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
)

// runWithoutFloor runs a benchmark without measuring the floor, and fails the test if the run
// fails. It accepts an invalid result, because the test machine may be busy.
func runWithoutFloor(t *testing.T, o Options) (*result.Result, []*result.Record) {
	t.Helper()
	o.NoFloor = true
	r, records, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	benchtest.CheckSchema(t, b.Bytes())
	return r, records
}

// measureOversleep measures how late, in milliseconds, a goroutine that only sleeps wakes up. The
// measurement ends when mean is called.
func measureOversleep() (mean func() float64) {
	const nap = 5 * time.Millisecond
	end, result := make(chan struct{}), make(chan float64)
	go func() {
		var late time.Duration
		for n := 1; ; n++ {
			begun := time.Now()
			time.Sleep(nap)
			late += time.Since(begun) - nap
			select {
			case <-end:
				result <- float64(late.Microseconds()) / 1000 / float64(n)
				return
			default:
			}
		}
	}()
	return func() float64 {
		close(end)
		return <-result
	}
}

// TestKnownTimes measures an engine with known latencies. A busy machine can only worsen a result,
// so the best of six runs counts. Each step in the engine and the client may be late by up to ten
// times the mean delay of a goroutine that only sleeps.
func TestKnownTimes(t *testing.T) {
	fastset.SkipIfShort(t, "times of an engine that are known")
	const ttft, itl = 1000.0, 250.0 // ms
	e := benchtest.StartEngine(t, sim.Options{Latency: time.Second, TokenRate: 4, Slots: 32})
	var last string
	for range 6 {
		late := measureOversleep()
		r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), NumPrompts: 16, MaxConcurrency: []int{16}, InputLen: "100", OutputLen: "9", IgnoreEOS: true})
		step := 10 * late()
		near := func(got, want, steps float64) bool {
			return got >= 0.98*want && got <= 1.02*want+steps*step
		}
		if r.Completed != 16 || *r.TotalOutputTokens != 16*9 {
			t.Fatalf("completed %d, %d tokens: %+v", r.Completed, *r.TotalOutputTokens, r.Penstock.Total.Errors)
		}
		got := map[string]float64{}
		for _, m := range []string{result.TTFT, result.TTFV, result.ITL, result.TPOT, result.E2EL} {
			got[m] = r.Penstock.Total.Latency[m].Percentile(50)
		}
		if near(got[result.TTFT], ttft, 1) && near(got[result.TTFV], ttft, 1) && near(got[result.ITL], itl, 1) && near(got[result.TPOT], itl, 1) && near(got[result.E2EL], ttft+8*itl, 9) {
			return
		}
		last = fmt.Sprintf("medians %v on a machine that delays a step by up to %.1f ms", got, step)
	}
	t.Errorf("%s; want TTFT %v, ITL %v within 2 %%", last, ttft, itl)
}

// stallingServer responds to chat requests immediately, with a stream of one token. For one second,
// it does not respond at all.
type stallingServer struct {
	mu    sync.Mutex
	begin time.Time
	until time.Time
}

func (s *stallingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	if s.begin.IsZero() && r.Header.Get("X-Stall") != "" {
		s.begin = time.Now().Add(500 * time.Millisecond)
		s.until = s.begin.Add(time.Second)
	}
	begin, until := s.begin, s.until
	s.mu.Unlock()
	if now := time.Now(); !begin.IsZero() && now.After(begin) && now.Before(until) {
		time.Sleep(time.Until(until))
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
}

// TestStall checks that a server that stalls for a second increases the latency of every request
// that is due during that second. This is the purpose of an open loop. The latency must also
// increase if the client may have only one request in flight.
func TestStall(t *testing.T) {
	t.Parallel()
	for _, limit := range [][]int{nil, {1}} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			runStalled(t, limit)
		})
	}
}

func runStalled(t *testing.T, limit []int) {
	server := httptest.NewServer(&stallingServer{})
	r, records := runWithoutFloor(t, Options{
		BaseURL: server.URL, Model: "m", Header: []string{"X-Stall: yes"}, RequestRate: []string{"50"}, Constant: true,
		Duration: PositiveDuration(3 * time.Second), MaxConcurrency: limit, InputLen: "4", OutputLen: "1",
	})
	server.Close()
	if r.Failed != 0 || len(records) < 140 {
		t.Fatalf("failed %d of %d", r.Failed, len(records))
	}
	// A third of the requests were due during the stall, and half of those waited for more than
	// half a second.
	got := r.Penstock.Total.Latency[result.TTFTFromSchedule]
	if p := got.Percentile(90); p < 500 || got.Max < 900 {
		t.Errorf("limit %v: TTFT from schedule p90 %.0f ms, max %.0f ms: the stall is not seen", limit, p, got.Max)
	}
	sent := r.Penstock.Total.Latency[result.TTFT]
	if limit != nil && sent.Percentile(90) > 500 {
		t.Errorf("limit 1: TTFT from send p90 %.0f ms: only one request was sent into the stall", sent.Percentile(90))
	}
}

func TestUsageErrors(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{APIKey: "right", Models: []string{"one", "two"}})
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"unreachable": {Options{BaseURL: "http://127.0.0.1:1"}, "cannot be reached"},
		"key":         {Options{BaseURL: e.URL(), APIKey: "wrong"}, "refuses the key"},
		"no key":      {Options{BaseURL: e.URL()}, "refuses the key"},
		"model":       {Options{BaseURL: e.URL(), APIKey: "right", Model: "three"}, "has one, two"},
		"dialect":     {Options{BaseURL: e.URL(), Mix: "telepathy"}, "--mix"},
		"data set":    {Options{BaseURL: e.URL(), DatasetName: "trace", DatasetPath: "testdata/bad.jsonl"}, "bad.jsonl: line 2"},
		"url":         {Options{BaseURL: "ftp://x"}, "want http://"},
		"rate":        {Options{BaseURL: e.URL(), RequestRate: []string{"-1"}}, "--request-rate"},
		"goodput":     {Options{BaseURL: e.URL(), Goodput: []string{"speed:1"}}, "--goodput"},
		"ramp":        {Options{BaseURL: e.URL(), Ramp: "4"}, "--ramp"},
		"search":      {Options{BaseURL: e.URL(), Profile: "search"}, "--goodput"},
		"event":       {Options{BaseURL: e.URL(), Events: []string{"dance"}}, "TIME:WHAT"},
		"expectation": {Options{BaseURL: e.URL(), ExpectErrors: []string{"@event"}}, "--expect-errors"},
		"share":       {Options{BaseURL: e.URL(), LeaveShare: "1.5"}, "--leave-share"},
		"no time":     {Options{BaseURL: e.URL(), LeaveShare: "0.1@after=0s"}, "above 0"},
		"no phase":    {Options{BaseURL: e.URL(), LeaveShare: "0.1@breakfast"}, "--leave-share"},
	} {
		_, _, err := Run(t.Context(), c.o, nil)
		var e *exit.Error
		if !errors.As(err, &e) || e.ExitCode() != exit.Usage || !strings.Contains(e.Text, c.want) || strings.Contains(e.Text, "\n") {
			t.Errorf("%s: got %v, want one line with %q and exit code 2", name, err, c.want)
		}
	}
}

// TestInterrupt interrupts a run that would take an hour, and checks the result.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	e := benchtest.StartEngine(t, sim.Options{TokenRate: 50})
	ctx, stop := context.WithCancel(t.Context())
	o := Options{BaseURL: e.URL(), Duration: PositiveDuration(time.Hour), MaxConcurrency: []int{4}, InputLen: "10", OutputLen: "5", NoFloor: true}
	r, _, err := Run(ctx, o, func(p Progress) {
		if p.Completed > 8 {
			stop()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Penstock.Interrupted || r.Penstock.Verdict.Valid || r.Completed < 8 || r.Failed != 0 {
		t.Errorf("interrupted %v, valid %v, completed %d, failed %d", r.Penstock.Interrupted, r.Penstock.Verdict.Valid, r.Completed, r.Failed)
	}
}

// TestFaults checks the failure kind and the stream fault that a run reports for each fault that an
// engine can inject.
func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]struct{ err, fault string }{
		"":                {},
		"crlf+split+bom":  {},
		"close-delimited": {},
		"usage-on-finish": {},
		"interim":         {},
		"no-done":         {"", result.FaultNoDone},
		"no-usage":        {"", result.FaultNoUsage},
		"no-finish":       {result.ErrStream, result.FaultNoEnd},
		"cut-after=3":     {result.ErrClosed, result.FaultNoEnd},
		"reset-after=3":   {result.ErrClosed, result.FaultNoEnd},
		"chunk-cut=3":     {result.ErrClosed, result.FaultNoEnd},
		"invalid-json":    {result.ErrStream, result.FaultUnparsed},
		"error-in-stream": {result.ErrInStream, ""},
		"error-first":     {result.ErrInStream, ""},
		"bad-chunk":       {result.ErrHTTP, ""},
		"garbage-head":    {result.ErrHTTP, ""},
		"eof-before":      {result.ErrClosed, ""},
		"status=503":      {result.ErrStatus, ""},
		"json-for-sse":    {result.ErrBody, ""},
		"stall-after=2":   {result.ErrTimeout, ""},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			e := benchtest.StartEngine(t, sim.Options{})
			o := Options{BaseURL: e.URL(), NumPrompts: 6, MaxConcurrency: []int{2}, InputLen: "10", OutputLen: "8", RequestTimeout: PositiveDuration(20 * time.Second)}
			if fault != "" {
				o.Header = []string{"X-Sim-Fault: " + fault}
			}
			if want.err == result.ErrTimeout {
				o.RequestTimeout = PositiveDuration(time.Second)
			}
			s, err := o.Validate()
			if err != nil {
				t.Fatal(err)
			}
			r, err := newRun(s)
			if err != nil {
				t.Fatal(err)
			}
			r.work.Model = "sim"
			d := r.newDriver()
			d.runAllStages(t.Context())
			r.send.Targets[0].Close()
			sum := d.collectFindings().stageSummary(0)
			if want.fault != "" && sum.StreamFaults[want.fault] != 6 || want.fault == "" && len(sum.StreamFaults) > 0 {
				t.Errorf("faults %v, want 6 of %q", sum.StreamFaults, want.fault)
			}
			if want.err != "" && (len(sum.Errors) != 1 || sum.Errors[0].Kind != want.err || sum.Failed != 6) || want.err == "" && sum.Completed != 6 {
				t.Errorf("completed %d, errors %v, want 6 of %q", sum.Completed, sum.Errors, want.err)
			}
		})
	}
}

// TestHalfHead checks that a request counts as timed out, rather than as an HTTP error, if the
// server stops sending in the middle of a response head.
func TestHalfHead(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-")
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	s, err := Options{BaseURL: ln.Addr().String(), RequestTimeout: PositiveDuration(200 * time.Millisecond)}.Validate()
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRun(s)
	if err != nil {
		t.Fatal(err)
	}
	q := r.work.NextSession()
	x := client.NewSample(q, warmupStage, 0)
	_, done := r.send.Exchange(t.Context(), q, q.D.Body(nil, q), &x)
	done()
	if x.Err != result.ErrTimeout {
		t.Errorf("half a head: %q", x.Err)
	}
}

// TestIdleClosed checks that no request fails because the engine closes connections after a short
// idle time.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	e := benchtest.StartEngine(t, sim.Options{KeepAlive: 50 * time.Millisecond})
	r, _ := runWithoutFloor(t, Options{BaseURL: e.URL(), RequestRate: []string{"12"}, Constant: true, NumPrompts: 30, InputLen: "5", OutputLen: "2"})
	if r.Failed != 0 || r.Completed != 30 {
		t.Errorf("completed %d, failed %d: %v", r.Completed, r.Failed, r.Penstock.Total.Errors)
	}
}
func TestMain(m *testing.M) { benchtest.Main(m) }
