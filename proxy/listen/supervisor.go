package listen

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// Sockets are the listeners that a service manager opened for this process (sd_listen_fds(3)); nil where it opened none.
// They stay open in the manager when this process ends: who connects meanwhile waits for the next one.
type Sockets struct{ Public, Admin net.Listener }

// InheritSockets takes over the sockets that the service manager passed on, and takes their description out of the
// environment. One named "admin" (FileDescriptorName=) is the admin listener's; among those with other names the first is
// the public one and the second the admin's. More, or a socket that is not TCP, is an error.
func InheritSockets() (Sockets, error) {
	var s Sockets
	for _, f := range activation.Files(true) {
		slot := &s.Public
		if f.Name() == "admin" || s.Public != nil {
			slot = &s.Admin
		}
		err := inherit(f, slot)
		if err != nil {
			return Sockets{}, fmt.Errorf("socket %s from the service manager: %w", f.Name(), err)
		}
	}
	return s, nil
}

func inherit(f *os.File, slot *net.Listener) error {
	defer f.Close() // FileListener has a descriptor of its own
	if *slot != nil {
		return errors.New("there is one already: pass on a public socket, and one with FileDescriptorName=admin")
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return err
	}
	if _, tcp := ln.(*net.TCPListener); !tcp {
		ln.Close()
		return fmt.Errorf("it is %s, and must be TCP: ListenStream=ADDRESS:PORT", ln.Addr().Network())
	}
	*slot = ln
	return nil
}

// The messages to the service manager (sd_notify(3)). Without one ($NOTIFY_SOCKET) nothing is sent; a manager that cannot
// be reached is not worth a word, because it says so itself.

// NotifyReady tells that the process serves, after its start or a reload. status is one line for `systemctl status`.
func NotifyReady(status string) { notify(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// NotifyReloading tells that a reload has begun; NotifyReady ends it.
func NotifyReloading() { notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec()) }

// NotifyStopping tells that the process drains.
func NotifyStopping(status string) { notify(daemon.SdNotifyStopping + "\nSTATUS=" + status) }

// NotifyAlive is the watchdog's sign of life.
func NotifyAlive() { notify(daemon.SdNotifyWatchdog) }

func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// WatchdogInterval is within which time the service manager wants a sign of life (WatchdogSec=); 0: it wants none.
func WatchdogInterval() time.Duration {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return d
}
