package proxy

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"penstock/config"
	"penstock/proxy/listen"
)

// TestOpenPorts: a port that is taken, or that cannot be one, is told once, with its setting and a remedy.
func TestOpenPorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, c := range []struct{ public, admin, want string }{
		{address, "", "listen: " + address + " is taken by another process: choose another address, or, for a second edge on it, start both with --share-port"},
		{"127.0.0.1:0", address, "admin.listen: " + address + " is taken"},
		{"192.0.2.1:4000", "", "listen: 192.0.2.1:4000: bind: "},
	} {
		f := config.Defaults()
		f.Listen, f.Admin.Listen = c.public, c.admin
		_, err := openPorts(f, listen.PortOptions{})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	denied := &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)} // not for a test that root runs
	if err := openError("listen", "0.0.0.0:443", denied); !strings.Contains(err.Error(), "listen: this user may not open 0.0.0.0:443: choose a port") {
		t.Error(err)
	}
}
