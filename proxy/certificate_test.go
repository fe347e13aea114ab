package proxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"penstock/proxy/listen"
)

// TestWarnOfCertificate starts with certificates that clients refuse: it is served, and the operator is told.
func TestWarnOfCertificate(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to time.Duration
		lines    int
	}{{"good", -time.Hour, time.Hour, 0}, {"expired", -2 * time.Hour, -time.Hour, 1}, {"early", time.Hour, 2 * time.Hour, 1}} {
		t.Run(c.name, func(t *testing.T) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(c.from), NotAfter: time.Now().Add(c.to)}
			der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
			if err != nil {
				t.Fatal(err)
			}
			private, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			cert, secret := filepath.Join(t.TempDir(), "edge.pem"), filepath.Join(t.TempDir(), "edge.key")
			for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, secret: {Type: "PRIVATE KEY", Bytes: private}} {
				if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			in := new(listen.Certificate)
			if err := in.Load(cert, secret); err != nil {
				t.Fatal(err)
			}
			core, seen := observer.New(zapcore.WarnLevel)
			(&Edge{opts: Options{Certificate: in}, log: zap.New(core)}).warnOfCertificate()
			if seen.Len() != c.lines {
				t.Errorf("%d warnings, want %d: %v", seen.Len(), c.lines, seen.All())
			}
		})
	}
}
