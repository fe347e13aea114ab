package e2e

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

func servedCertificateName(t *testing.T, address string) string {
	t.Helper()
	// Only the serial number is needed.
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestAdminOverTLS checks that the admin listener uses TLS with a separate certificate, that the
// certificate is read again when it changes, and that each command accepts --cacert.
func TestAdminOverTLS(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{})
	dir := t.TempDir()
	trusted := filepath.Join(dir, "trusted.pem") // contains all certificates used so far
	pair := func() {
		cert, _ := selfsigned.WritePair(t, dir, "admin", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		before, _ := os.ReadFile(trusted)
		next, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(trusted, append(before, next...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair()
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "edge.yaml")
	write := func(tls string) {
		text := fmt.Sprintf(`listen: 127.0.0.1:0
admin: { listen: "127.0.0.1:0", token: operator-secret-token%s }
timeouts: { linger: 0s }
keys: [{ id: t, hash: %q }]
upstreams: [{ name: up-0, url: %q, engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`, tls, hash, engine.URL())
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(", tls: { cert: admin.pem, key: admin.key }")
	if out, _ := command(t, 0, "check", file); !strings.Contains(out, ": ok") {
		t.Errorf("check = %s, want ok", out)
	}
	_, at := serveProgram(t, file)
	address, secure := strings.CutPrefix(at, "https://")
	if !secure {
		t.Fatalf("the admin listener is %s", at)
	}
	reached := []string{"--admin", at, "--token", "operator-secret-token", "--cacert", trusted}
	for _, line := range []string{
		"ready", "top --once", "top --format json", "usage", "reload", "drain up-0 --force", "maintenance up-0", "ready up-0",
		"ready --format json", "usage --format json", "reload --format json", "drain up-0 --force --wait --format json", "ready up-0 --format json",
	} {
		out, _ := command(t, 0, append(strings.Fields(line), reached...)...)
		if strings.Contains(line, "json") != json.Valid([]byte(out)) && line != "ready" {
			t.Errorf("%s prints %s", line, out)
		}
	}
	if _, errs := command(t, 1, append([]string{"canary", "sim"}, reached...)...); !strings.Contains(errs, "no arm") {
		t.Errorf("canary = %s, want no arm", errs)
	}
	listed, files := bundle(t, "--config", file, "--admin", at)
	if files["metrics.txt"] == "" { // the configuration names the CA to trust
		t.Errorf("support lists %s, want metrics.txt", listed)
	}
	if _, errs := command(t, 1, "ready", "--admin", at); !strings.Contains(errs, "--cacert") {
		t.Errorf("without the authority: %s", errs)
	}
	if _, errs := command(t, 1, "ready", "--admin", address); !strings.Contains(errs, "https") {
		t.Errorf("without TLS: %s", errs)
	}
	if _, errs := command(t, 1, "ready", "--admin", at, "--cacert", file); !strings.Contains(errs, "no certificate in PEM form") {
		t.Errorf("no certificate: %s", errs)
	}

	var state struct {
		Admin *struct {
			Ends time.Time `json:"not_after"`
		} `json:"admin_certificate"`
	}
	out, _ := command(t, 0, append(strings.Fields("top --format json"), reached...)...)
	if err := json.Unmarshal([]byte(out), &state); err != nil || state.Admin == nil {
		t.Fatalf("the state has no admin_certificate (%v):\n%s", err, out)
	}
	if want := fmt.Sprintf("\npenstock_admin_certificate_expiry_timestamp_seconds %d\n", state.Admin.Ends.Unix()); !strings.Contains(files["metrics.txt"], want) || time.Until(state.Admin.Ends) > time.Hour {
		t.Errorf("the certificate ends at %v, and the metrics lack %q", state.Admin.Ends, want)
	}
	if out, _ := command(t, 0, append(strings.Fields("top --once"), reached...)...); !strings.Contains(out, "certificate of the admin listener (admin.tls): until ") {
		t.Errorf("top says nothing of the certificate:\n%s", out)
	}

	before := servedCertificateName(t, address)
	pair()
	command(t, 0, append([]string{"reload"}, reached...)...)
	if servedCertificateName(t, address) == before {
		t.Error("the old certificate is served after a reload")
	}
	write("")
	if out, _ := command(t, 0, append([]string{"reload", "--diff"}, reached...)...); !strings.Contains(out, "removed admin.tls") || !strings.Contains(out, "after a restart") {
		t.Errorf("TLS off: %s", out)
	}
	write(", tls: { cert: admin.pem }")
	if _, errs := command(t, 1, "check", file); !strings.Contains(errs, "cert and key go together") {
		t.Errorf("half a pair: %s", errs)
	}
}
