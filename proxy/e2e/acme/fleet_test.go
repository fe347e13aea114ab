package acme

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/config/testkit/acmeca"
	"penstock/proxy/e2e/rig"
)

const sealKey = "0123456789abcdef0123456789abcdef"

// sharedSetup returns the setup of an edge that shares its certificates with other edges.
func sharedSetup(ca *acmeca.CA, store, more string) rig.Setup {
	top := settings(ca, "a.test", more) + fmt.Sprintf("\nseal: { keys: [%s] }\nfleet: { edges: 2, store: { url: \"redis://%s\", timeout: 1s }, secrets: [0123456789abcdef0123456789abcdef] }", sealKey, store)
	return rig.Setup{Top: top, Files: map[string]string{"ca.pem": ca.PEM}, Cold: true}
}

// realStore starts a redis-server. If redis-server is not installed, the test is skipped, except in
// CI.
func realStore(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatal("CI needs redis-server")
	case err != nil:
		t.Skip("SKIPPED: there is no redis-server on this machine; apt-get install redis-server")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	cmd := exec.CommandContext(t.Context(), path, "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	at := "127.0.0.1:" + strconv.Itoa(port)
	rig.WaitFor(t, rig.WaitTimeout, "the store listens", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return at
}

// startTwo starts an edge that orders the certificate, and another edge that does not. The
// authority answers the order only after both edges have reached the store.
func startTwo(t *testing.T, ca *acmeca.CA, setup rig.Setup) (orders, other *rig.ProgramEdge) {
	t.Helper()
	begin := make(chan struct{})
	ca.SetSimulatedFailures(func(m *acmeca.SimulatedFailures) { m.Wait = begin })
	defer close(begin)
	orders = rig.StartProgram(t, setup)
	rig.WaitFor(t, rig.WaitTimeout, "the first edge orders", func() bool { return ca.CountRequests("/new-order") > 0 })
	setup.Untidy = false
	other = rig.StartProgram(t, setup)
	rig.WaitFor(t, rig.WaitTimeout, "the second edge reaches the store", func() bool { return other.Metric("penstock_fleet_members") == 2 })
	return orders, other
}

func challengeAddress(t *testing.T, p *rig.ProgramEdge) (at string) {
	t.Helper()
	rig.WaitFor(t, rig.WaitTimeout, "the log names the listener", func() bool {
		if found := listening.FindStringSubmatch(p.Log.String()); found != nil {
			at = found[1]
		}
		return at != ""
	})
	return at
}

// TestFleet checks that two edges that share a store order one certificate and both present it. The
// authority's check reaches the edge that did not order the certificate. The store must contain the
// certificate only in encrypted form, and an edge that starts later must not order another
// certificate.
func TestFleet(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]func(t *testing.T) string{
		"in the test": func(t *testing.T) string { t.Helper(); return miniredis.RunT(t).Addr() }, "redis-server": realStore,
	} {
		for kind, more := range map[string]string{"tls": "", "http": `, http: "127.0.0.1:0"`} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				var world portMap
				ca := acmeca.Start(t, acmeca.Options{Reach: world.dialMapped})
				setup := sharedSetup(ca, store(t), more)
				a, b := startTwo(t, ca, setup)
				if kind == "tls" {
					world.mapPort("443", b.Addr)
				} else {
					world.mapPort("80", challengeAddress(t, b))
				}
				first := waitCertificate(t, ca, a.Addr, "a.test")
				if other := waitCertificate(t, ca, b.Addr, "a.test"); other != first {
					t.Error("the edges show two certificates")
				}
				c := rig.StartProgram(t, setup)
				if other := waitCertificate(t, ca, c.Addr, "a.test"); other != first {
					t.Error("an edge that joined shows another certificate")
				}
				if accounts, orders, issued := ca.Counts(); accounts != 1 || orders != 1 || issued != 1 {
					t.Errorf("%s, want one account, one order and one certificate", ca)
				}
				if n := a.Metric("penstock_acme_orders_total", `result="ok"`) + b.Metric("penstock_acme_orders_total", `result="ok"`); n != 1 {
					t.Errorf("%v orders are counted", n)
				}
			})
		}
	}
}

// TestFleetEdgeKilled kills the ordering edge during the authority's check. It checks that another
// edge obtains a certificate with the same account once the lease has expired.
func TestFleetEdgeKilled(t *testing.T) {
	t.Parallel()
	var world portMap
	ca := acmeca.Start(t, acmeca.Options{Reach: world.dialMapped})
	setup := sharedSetup(ca, miniredis.RunT(t).Addr(), "")
	setup.Untidy = true // the killed edge cannot clean up
	a, b := startTwo(t, ca, setup)
	rig.WaitFor(t, rig.WaitTimeout, "the authority looks for the answer", func() bool { return ca.CountRequests("/challenge/") > 0 })
	a.Signal(syscall.SIGKILL)
	world.mapPort("443", b.Addr)
	// The lease of the killed edge's lock must expire first. A minute is enough for that.
	waitCertificateWithin(t, time.Minute, ca, b.Addr, "a.test")
	if accounts, orders, issued := ca.Counts(); accounts != 1 || orders > 2 || issued != 1 {
		t.Errorf("%s, want one account, at most two orders and one certificate", ca)
	}
}

// TestFleetStoreLost checks an edge that cannot reach the store. It must not order a certificate,
// must log the reason, and must serve the certificates in its folder.
func TestFleetStoreLost(t *testing.T) {
	t.Parallel()
	var world portMap
	ca := acmeca.Start(t, acmeca.Options{Reach: world.dialMapped})
	store := miniredis.RunT(t)
	setup := sharedSetup(ca, store.Addr(), "")
	a := rig.StartProgram(t, setup)
	world.mapPort("443", a.Addr)
	first := waitCertificate(t, ca, a.Addr, "a.test")
	store.Close()
	a.End()
	a.Restart()
	if waitCertificate(t, ca, a.Addr, "a.test") != first {
		t.Error("another certificate after the restart")
	}
	b := rig.StartProgram(t, setup)
	rig.WaitFor(t, rig.WaitTimeout, "the status says what the order waits for", func() bool {
		return strings.Contains(b.Status().Verdict.Text, "there is no certificate of a.test yet (the fleet's store does not answer")
	})
	if n := b.Metric("penstock_acme_waiting"); n != 1 {
		t.Errorf("%v domains wait", n)
	}
	if _, orders, _ := ca.Counts(); orders != 1 {
		t.Errorf("%s, want 1 order", ca)
	}
	if err := store.Restart(); err != nil {
		t.Fatal(err)
	}
	if waitCertificate(t, ca, b.Addr, "a.test") != first {
		t.Error("another certificate after the store's return")
	}
	rig.WaitFor(t, 10*time.Second, "nothing waits", func() bool { return b.Metric("penstock_acme_waiting") == 0 })
}
