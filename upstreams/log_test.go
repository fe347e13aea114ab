package upstreams

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// TestLogLevels checks that a warning is logged when an upstream goes out of service, but not when
// it returns.
func TestLogLevels(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	s := newTestSet(t, Options{Log: zap.New(core)})
	p, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: "openai"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := p.Upstream("a")[0]
	u.bring(StateUp)
	for client := range 5 {
		u.failFor(t, client, OutcomeBadResponse)
	}
	u.Breaker.mu.Lock()
	u.Breaker.circuit.isOpen = false
	u.Breaker.publishAndLogState("test", time.Now())
	u.Breaker.mu.Unlock()
	u.bring(StateDown)
	u.bring(StateUp)
	want := []struct {
		event string
		level zapcore.Level
	}{
		{"upstream_up", zap.InfoLevel},
		{"breaker_open", zap.WarnLevel},
		{"breaker_closed", zap.InfoLevel},
		{"upstream_down", zap.WarnLevel},
		{"upstream_up", zap.InfoLevel},
	}
	all := lines.All()
	if len(all) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(all), len(want), all)
	}
	for i, w := range want {
		if e := all[i]; e.ContextMap()["event"] != w.event || e.Level != w.level {
			t.Errorf("line %d is %v %v, want %v %v", i, e.Level, e.ContextMap()["event"], w.level, w.event)
		}
	}
}
