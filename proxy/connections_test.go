package proxy

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// TestConnectionsToldOnce: a bound that descriptors do not allow is logged when it is new, and not at every reload.
func TestConnectionsToldOnce(t *testing.T) {
	core, seen := observer.New(zapcore.WarnLevel)
	e, c := &Edge{log: zap.New(core)}, config.Defaults()
	c.Limits.Connections = 10_000_000
	if e.connections(c) == c.Limits.Connections {
		t.Skip("this process may open any number of descriptors")
	}
	e.connections(c)
	if n := seen.Len(); n != 1 {
		t.Errorf("%d warnings of one bound", n)
	}
	c.Limits.Connections--
	e.connections(c)
	if n := seen.Len(); n != 2 {
		t.Errorf("%d warnings of two bounds", n)
	}
}
