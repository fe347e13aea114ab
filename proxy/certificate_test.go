package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/config/testkit/selfsigned"
	"penstock/proxy/front/listen"
)

// TestWarnOfCertificate checks that the edge serves even certificates that clients reject, and
// warns the operator.
func TestWarnOfCertificate(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to time.Duration
		lines    int
	}{{"good", -time.Hour, time.Hour, 0}, {"expired", -2 * time.Hour, -time.Hour, 1}, {"early", time.Hour, 2 * time.Hour, 1}} {
		t.Run(c.name, func(t *testing.T) {
			cert, key := selfsigned.WritePair(t, t.TempDir(), "edge", time.Now().Add(c.from), time.Now().Add(c.to))
			in := new(listen.Certificate)
			if err := in.Load(cert, key, nil); err != nil {
				t.Fatal(err)
			}
			core, seen := observer.New(zapcore.WarnLevel)
			warnInvalidCertificate(zap.New(core), "tls", in)
			if seen.Len() != c.lines {
				t.Errorf("%d warnings, want %d: %v", seen.Len(), c.lines, seen.All())
			}
		})
	}
}

// TestReloadWarnsOfFiles checks that a reload and a dry run warn about the same files as `penstock
// check`, with the same text.
func TestReloadWarnsOfFiles(t *testing.T) {
	dir := t.TempDir()
	selfsigned.WritePair(t, dir, "late", time.Now().Add(-time.Hour), time.Now().Add(4*24*time.Hour+time.Hour))
	name := filepath.Join(dir, "edge.yaml")
	text := "tls: { cert: late.pem, key: late.key }\nauth: none\nlisten: 127.0.0.1:0\nupstreams: [{ name: up, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: up }] }]\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, want := LoadConfig(name)
	if !strings.Contains(fmt.Sprint(want), "late.pem ends on") {
		t.Fatalf("check warns of %v", want)
	}
	if _, got, _ := ConfigReloader(name)(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a reload warns of %v, check of %v", got, want)
	}
	if _, got := SiblingConfigParser(name)([]byte(text), name); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("a dry run warns of %v, check of %v", got, want)
	}
}
