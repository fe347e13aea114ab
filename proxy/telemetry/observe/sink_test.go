package observe

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// TestSinkNeverWaits checks that Write never waits for a blocked destination, and that only
// complete lines are dropped and counted. The other lines are written once the destination accepts
// bytes again.
func TestSinkNeverWaits(t *testing.T) {
	r, w := io.Pipe()
	sink := NewLogSink(w, nil)
	log, err := NewLogger(config.Log{Level: "info", Format: "json"}, sink)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCalls(metrics.NewSet(), log, config.Log{Access: true})
	c.SetConfigured([]string{"m"}, []string{"a"}, nil)
	const calls = 10000 // about 4 MB of lines
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range calls {
			finish(c, successfulRecord("m", "a"))
		}
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("a blocked pipe holds calls up")
	}
	dropped := sink.Dropped()
	if dropped == 0 || dropped >= calls {
		t.Fatalf("%d of %d lines were dropped", dropped, calls)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		text <- string(b)
	}()
	_ = sink.Close()
	w.Close()
	lines := strings.Split(strings.TrimSuffix(<-text, "\n"), "\n")
	if len(lines) != calls-int(dropped) {
		t.Errorf("%d lines came, %d were dropped, %d were written", len(lines), dropped, calls)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, `{"level":"info","ts":`) || !strings.HasSuffix(l, `"client":"-","cached_tokens":4}`) {
			t.Fatalf("not a whole line: %s", l)
		}
	}
}

func TestConsoleLine(t *testing.T) {
	now := time.Now()
	line := func(r *Record) string { return string(appendConsole(nil, r, now)) }
	r := successfulRecord("m", "a")
	r.Start = now.Add(-1500 * time.Millisecond)
	copy(r.RequestID[:], "req_0123456789")
	if got := line(r); !strings.HasPrefix(got, "200  chat  m → a  stream  10+20 tok  ttft 0.10s  1.50s  req_0123456789") {
		t.Error(got)
	}
	r = &Record{Status: 429, Dialect: "messages", Outcome: OutcomeLimited, Code: "rate_limited", Start: now}
	if got := line(r); !strings.HasPrefix(got, "limited  429  messages  - → -  rate_limited  0.00s  ") {
		t.Error(got)
	}
	for near, want := range map[string]string{"": "unknown model → -", "llama": "unknown model, like llama → -"} {
		r = &Record{Status: 404, Dialect: "chat", Outcome: OutcomeClientError, Code: "model_not_found", Nearest: near, Start: now}
		if got := line(r); !strings.HasPrefix(got, "client_error  404  chat  "+want+"  model_not_found  0.00s  ") {
			t.Error(got)
		}
	}
	r = &Record{Start: now, Dialect: "chat", Model: "m", Upstream: "a", Status: 502, Code: "upstream_failed", Outcome: OutcomeUpstreamFail, Failed: []FailedAttempt{{Upstream: "a", Cause: "status", EngineStatus: 500}}}
	if got := line(r); !strings.HasPrefix(got, "upstream_fail  502  chat  m → a  upstream_failed  (a: status 500)  0.00s  ") {
		t.Errorf("line = %q, want it to begin with the upstream_fail of a", got)
	}
}

// TestLineLevels checks that the line of a call that the service failed is a warning, in both
// formats and for any status.
func TestLineLevels(t *testing.T) {
	for _, format := range []string{config.LogFormatJSON, config.LogFormatConsole} {
		core, lines := observer.New(zap.InfoLevel)
		c := NewCalls(metrics.NewSet(), zap.New(core), config.Log{Access: true, Format: format})
		for outcome, want := range map[Outcome]zapcore.Level{
			OutcomeOK: zap.InfoLevel, OutcomeClientError: zap.InfoLevel, OutcomeLimited: zap.InfoLevel, OutcomeClientGone: zap.InfoLevel, OutcomeDrained: zap.InfoLevel,
			OutcomeNoRoute: zap.WarnLevel, OutcomeUpstreamFail: zap.WarnLevel, OutcomeStreamBroken: zap.WarnLevel, OutcomeTimeout: zap.WarnLevel, OutcomeInternal: zap.WarnLevel,
		} {
			r := successfulRecord("m", "a")
			r.Outcome, r.Code = outcome, "code"
			finish(c, r)
			line := lines.TakeAll()[0]
			if line.Level != want {
				t.Errorf("%s: the level of %s is %s, want %s", format, outcome, line.Level, want)
			}
			if first := strings.HasPrefix(line.Message, string(outcome)+"  200  chat"); format == config.LogFormatConsole && first != (outcome != OutcomeOK) {
				t.Errorf("the line of %s is %q", outcome, line.Message)
			}
		}
	}
}

// TestSinkGathersLines checks that lines are written together after gatherTime, earlier if there
// are many, and at once at the end.
func TestSinkGathersLines(t *testing.T) {
	line := []byte(strings.Repeat("x", 99) + "\n")
	for _, c := range []struct {
		name   string
		lines  int
		closes bool
		after  time.Duration
	}{
		{"few lines", 3, false, gatherTime},
		{"many lines", manyPendingBytes / 100, false, gatherTime}, // just below manyPendingBytes
		{"enough lines", manyPendingBytes/100 + 1, false, 0},
		{"the end", 3, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes []int
				var at time.Duration
				start := time.Now()
				sink := NewLogSink(writerFunc(func(p []byte) (int, error) {
					writes, at = append(writes, len(p)), time.Since(start)
					return len(p), nil
				}), nil)
				for range c.lines {
					_, _ = sink.Write(line)
				}
				if c.closes {
					_ = sink.Close()
				}
				time.Sleep(2 * gatherTime)
				synctest.Wait()
				if len(writes) != 1 || writes[0] != c.lines*len(line) || at != c.after {
					t.Errorf("got writes of %v bytes, the last after %v, want one of %d after %v", writes, at, c.lines*len(line), c.after)
				}
				_ = sink.Close()
			})
		})
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
