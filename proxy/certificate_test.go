package proxy

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config/testkit/selfsigned"
	"penstock/proxy/front/listen"
)

// TestWarnOfCertificate checks that the edge serves certificates that clients refuse, and warns the
// operator.
func TestWarnOfCertificate(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to time.Duration
		lines    int
	}{{"good", -time.Hour, time.Hour, 0}, {"expired", -2 * time.Hour, -time.Hour, 1}, {"early", time.Hour, 2 * time.Hour, 1}} {
		t.Run(c.name, func(t *testing.T) {
			cert, key := selfsigned.Write(t, t.TempDir(), "edge", time.Now().Add(c.from), time.Now().Add(c.to))
			in := new(listen.Certificate)
			if err := in.Load(cert, key, nil); err != nil {
				t.Fatal(err)
			}
			core, seen := observer.New(zapcore.WarnLevel)
			warnOfCertificate(zap.New(core), "tls", in)
			if seen.Len() != c.lines {
				t.Errorf("%d warnings, want %d: %v", seen.Len(), c.lines, seen.All())
			}
		})
	}
}
