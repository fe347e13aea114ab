package proxy

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config"
)

// TestConnectionLimitWarnsOnce checks the warning that the descriptor limit lowers the connection
// limit. The edge must not log it again at a reload that does not change the connection limit.
func TestConnectionLimitWarnsOnce(t *testing.T) {
	core, seen := observer.New(zapcore.WarnLevel)
	log, c := zap.New(core), config.Defaults()
	var bound connectionLimit
	c.Limits.Connections = 10_000_000
	if bound.effectiveLimit(c, log) == c.Limits.Connections {
		t.Skip("this process may open any number of descriptors")
	}
	bound.effectiveLimit(c, log)
	if n := seen.Len(); n != 1 {
		t.Errorf("%d warnings of one bound", n)
	}
	c.Limits.Connections--
	bound.effectiveLimit(c, log)
	if n := seen.Len(); n != 2 {
		t.Errorf("%d warnings of two bounds", n)
	}
}
