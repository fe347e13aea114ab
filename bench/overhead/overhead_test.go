package overhead

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/result"
	"penstock/config/testkit/golden"
)

// TestOverhead checks measurements with real processes, including the other proxies if they are
// installed.
func TestOverhead(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	t.Parallel()
	benchtest.BuildProgram(t)
	t.Run("beside", overheadBeside)
	t.Run("alone", overheadAlone)
	t.Run("stopped", overheadStopped)
}

// overheadStopped checks that the report of a stopped run contains the rounds that were complete.
func overheadStopped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{"round 1 ": exit.Failed, "round 2 ": exit.InvalidResult} {
		ctx, stop := context.WithCancel(t.Context())
		c := &Cmd{Rounds: 3, Duration: time.Second, Rate: 1, HalfRate: 1, NoPin: true, Streams: 1, Hold: 1, Tests: []string{"reload", "idle"}}
		var text bytes.Buffer
		err := c.run(ctx, &text, writerFunc(func(note string) {
			if strings.HasPrefix(note, in) && strings.Contains(note, "idle") {
				stop()
			}
		}))
		var ended *exit.Error
		if !errors.As(err, &ended) || ended.Code != want || !strings.HasPrefix(ended.Text, "stopped in ") {
			t.Errorf("input %s: %v, want code %d and where it stopped", in, err, want)
		}
		if got := strings.Contains(text.String(), "costs: one round,"); got != (want == exit.InvalidResult) {
			t.Errorf("input %s: one round reported: %v, want %v: %s", in, got, want == exit.InvalidResult, text.String())
		}
	}
}

type writerFunc func(text string)

func (f writerFunc) Write(b []byte) (int, error) {
	f(string(b))
	return len(b), nil
}

func overheadBeside(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.json")
	c := &Cmd{Rounds: 2, Duration: 300 * time.Millisecond, Rate: 100, HalfRate: 200, NoPin: true, Streams: 2, Hold: 4, Tests: []string{"saturated", "half", "light", "request", "latency", "tls", "connection"}, Beside: []string{"nginx", "haproxy"}, Format: "json", Output: out}
	var text bytes.Buffer
	if err := c.run(context.Background(), &text, io.Discard); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(out); err != nil || !bytes.Contains(b, []byte(`"penstock"`)) {
		t.Errorf("the file = %s, %v; want penstock in it", b, err)
	}
}

func overheadAlone(t *testing.T) {
	t.Parallel()
	c := &Cmd{
		Rounds: 1, Duration: 300 * time.Millisecond, Rate: 100, HalfRate: 1, NoPin: true, Streams: 2, Hold: 4,
		Tests: []string{"token", "latency", "prompt", "image", "messages", "responses", "short", "memory", "tls", "connection", "idle", "reload", "reloading"},
	}
	r, err := c.measure(context.Background(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range r.Tests {
		targets := []string{"penstock"}
		if strings.HasPrefix(test.Name, "latency") {
			targets = append(targets, "direct")
		}
		// Four connections may fit into memory that the proxy has already allocated, so the
		// measured difference may be 0.
		mayBeNone := slices.Contains([]string{"memory", "tls", "connection"}, test.Name)
		for _, target := range targets {
			if v := test.Rounds[target]; len(v) != 1 || !(v[0] > 0) && !mayBeNone {
				t.Errorf("test %s, target %s: rounds %v, want one above 0", test.Name, target, v)
			}
		}
	}
	// Tokens are 20 ms apart. On any machine, a token requires far less CPU time than that.
	if v := r.Tests[0].Median["penstock"]; r.Tests[0].Name != "token" || v > 5000 {
		t.Errorf("a token costs %v µs", v)
	}
	if v := r.Tests[len(r.Tests)-4].Median["penstock"]; v < 5 || v > 200 {
		t.Errorf("an edge at rest has %v MiB", v)
	}
}

// TestDefaultTests checks that all tests run by default, so that one command produces the whole
// table.
func TestDefaultTests(t *testing.T) {
	field, _ := reflect.TypeFor[Cmd]().FieldByName("Tests")
	c := Cmd{Rate: 1, HalfRate: 1, Streams: 1, Hold: 1, Tests: strings.Split(field.Tag.Get("default"), ",")}
	tests, err := c.selectedMeasurements()
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(c.saturationMeasurements(), c.requestMeasurements(), c.streamMeasurements(), c.memoryMeasurements(), c.reloadMeasurements())
	if len(tests) != len(all) {
		t.Errorf("the default has %d tests of %d", len(tests), len(all))
	}
}

// TestConfigurations checks that each proxy's configuration contains all settings that a
// measurement needs.
func TestConfigurations(t *testing.T) {
	l, err := newTestBench()
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for name := range tlsConfigTexts {
		for _, m := range []measurement{{}, {tls: true}, {useLargeConfig: true}} {
			path, err := l.writeProxyConfig(name, "127.0.0.1:1", "127.0.0.1:2", &m)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil || bytes.Contains(text, []byte("{{")) {
				t.Errorf("template %s: %v, want no placeholder\n%s", name, err, text)
			}
			if got := bytes.Contains(text, []byte("certificate.pem")); got != m.tls {
				t.Errorf("%s: with a certificate: %v, want %v", name, got, m.tls)
			}
			if want := m.useLargeConfig && name == "penstock"; want != (bytes.Count(text, []byte("hash:")) == manyKeys) || want != (bytes.Count(text, []byte("url:")) == manyUpstreams) {
				t.Errorf("%s: %d keys, %d upstreams", name, bytes.Count(text, []byte("hash:")), bytes.Count(text, []byte("url:")))
			}
		}
	}
}

// TestReloadCounts checks that a reload counts only if a limit in the file has changed and the
// reload has succeeded.
func TestReloadCounts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edge.yaml")
	s := startedTarget{config: path, admin: "http://127.0.0.1:9"}
	for text, want := range map[string]string{"keys: []": "no limit to change", "requests_per_minute: 100": "POST http://127.0.0.1:9"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := s.measureReloads(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("reload of %s = %v, %v; want an error with %q", text, m, err, want)
		}
	}
}

func TestOverheadText(t *testing.T) {
	r := &Report{
		Rounds: 3, Environment: result.Environment{CPU: "Example"}, Targets: []string{"direct", "penstock", "nginx"}, Missing: []string{"haproxy"},
		Placement: "Each proxy alone on processor 1", Doubts: []string{"latency, nginx, round 2: the client was late"},
		Tests: []ReportRow{
			{Name: "request", Text: "CPU of a request", Unit: "µs", Rounds: map[string][]float64{"penstock": {26, 20, 21}, "nginx": {15, 16, 90}}},
			{Name: "first", Text: "first token", Unit: "ms", Rounds: map[string][]float64{"penstock": {3, 2, 5, 3, 2, 4}, "nginx": {1, 1, 1, 2, 2, 2}}},
			{Name: "latency", Text: "end to end", Unit: "ms", Rounds: map[string][]float64{"direct": {0.2, 0.2}, "penstock": {0.3, 0.4}, "nginx": {0.2, 0.4}}},
			{Name: "messages", Text: "Messages", Unit: "µs", Rounds: map[string][]float64{"penstock": {22, 22, 22}}},
		},
	}
	for i := range r.Tests {
		r.Tests[i].Median, r.Tests[i].Ratio, r.Tests[i].Ratios = map[string]float64{}, map[string]float64{}, map[string][]float64{}
		r.Tests[i].Over = map[string]Difference{}
		r.Tests[i].summarise()
	}
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	golden.CompareFile(t, "testdata/overhead.txt", b.Bytes())
}

// TestDifference checks that the bounds agree with published tables for the sign test at 95 %.
func TestDifference(t *testing.T) {
	for n, outside := range map[int]int{1: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 17: 4, 25: 7} {
		var ours, theirs []float64
		for i := range n {
			ours, theirs = append(ours, float64(3*i)), append(theirs, float64(2*i))
		}
		got := newDifference(ours, append(theirs, 1000))
		if want := (Difference{Median: float64(n-1) / 2, Low: float64(outside), High: float64(n - 1 - outside)}); got != want {
			t.Errorf("%d pairs: %+v, want %+v", n, got, want)
		}
	}
}

// TestComparisonsText checks that the report contains no number if the difference between rounds
// exceeds the time that a proxy adds. Otherwise, the number could be negative.
func TestComparisonsText(t *testing.T) {
	for want, edge := range map[string][]float64{
		"penstock adds less than the rounds differ": {90, 150, 60}, "penstock adds 20.00 ms": {110, 130, 120},
	} {
		l := ReportRow{Unit: "ms", Rounds: map[string][]float64{"direct": {100, 100, 100}, "penstock": edge}, Median: map[string]float64{"direct": 100, "penstock": median(edge)}}
		if got := l.comparisonsText([]string{"direct", "penstock"}); got != want {
			t.Errorf("%v: %q, want %q", edge, got, want)
		}
	}
}

func TestOverheadUsage(t *testing.T) {
	good := Cmd{Rounds: 1, Duration: time.Second, Rate: 1, HalfRate: 1, Streams: 1, Hold: 1, Tests: []string{"request"}}
	for _, change := range []func(*Cmd){
		func(c *Cmd) { c.Rounds = 0 }, func(c *Cmd) { c.Duration = 0 }, func(c *Cmd) { c.Hold = -1 }, func(c *Cmd) { c.Rate = 0 }, func(c *Cmd) { c.HalfRate = 0 }, func(c *Cmd) { c.Rate = math.Inf(1) },
		func(c *Cmd) { c.Tests = []string{"nope"} }, func(c *Cmd) { c.Beside = []string{"apache"} },
	} {
		c := good
		change(&c)
		var e *exit.Error
		if err := c.run(context.Background(), io.Discard, io.Discard); !errors.As(err, &e) || e.Code != exit.Usage {
			t.Errorf("run of %+v: %v, want a usage error", c, err)
		}
	}
	nowhere := Cmd{Output: filepath.Join(t.TempDir(), "no", "x.json")}
	if err := nowhere.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("a file that cannot be written: %v", err)
	}
	if err := (&Report{}).write(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestMain(m *testing.M) { benchtest.Main(m) }
