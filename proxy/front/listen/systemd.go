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

// InheritedSockets contains the listeners that a service manager has opened for this process
// (sd_listen_fds(3)). A listener that the manager has not opened is nil. The manager keeps the
// sockets open after this process exits, so that clients wait for the next process.
type InheritedSockets struct{ Public, Admin net.Listener }

// InheritSockets returns the service manager's sockets, and removes their description from the
// environment. A socket named "admin" (FileDescriptorName=) is the admin listener. Of the remaining
// sockets, the first is the public listener and the second is the admin listener. InheritSockets
// returns an error if there are more sockets, or if a socket is neither a TCP nor a Unix stream
// socket.
func InheritSockets() (InheritedSockets, error) {
	var s InheritedSockets
	for _, f := range activation.Files(true) {
		slot := &s.Public
		if f.Name() == "admin" || s.Public != nil {
			slot = &s.Admin
		}
		err := inheritSocket(f, slot)
		if err != nil {
			return InheritedSockets{}, fmt.Errorf("socket %s from the service manager: %w", f.Name(), err)
		}
	}
	return s, nil
}

func inheritSocket(f *os.File, slot *net.Listener) error {
	defer f.Close() // FileListener duplicates the descriptor
	if *slot != nil {
		return errors.New("there is one already: pass on a public socket, and one with FileDescriptorName=admin")
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return err
	}
	switch ln := ln.(type) {
	case *net.TCPListener:
		*slot = ln
	case *net.UnixListener:
		*slot = &unixListener{UnixListener: ln, socketPath: ln.Addr().String()}
	default:
		ln.Close()
		return fmt.Errorf("it is %s, and must be TCP or a Unix socket: ListenStream=ADDRESS:PORT or ListenStream=/PATH", ln.Addr().Network())
	}
	return nil
}

// The functions below send messages to the service manager (sd_notify(3)). If $NOTIFY_SOCKET is
// unset, no manager is listening, and they do nothing. They ignore errors, because the manager
// itself detects missing messages.

// NotifyReady reports that the process is ready, after a start or a reload. status is one line of
// text for `systemctl status`.
func NotifyReady(status string) { notifySystemd(daemon.SdNotifyReady + "\nSTATUS=" + status) }

// NotifyReloading reports that a reload has started. The end of the reload is reported with
// NotifyReady.
func NotifyReloading() {
	notifySystemd(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// NotifyStopping reports that the process is draining.
func NotifyStopping(status string) { notifySystemd(daemon.SdNotifyStopping + "\nSTATUS=" + status) }

// NotifyAlive sends the watchdog message.
func NotifyAlive() { notifySystemd(daemon.SdNotifyWatchdog) }

func notifySystemd(state string) { _, _ = daemon.SdNotify(false, state) }

// WatchdogInterval returns how often the service manager expects NotifyAlive (WatchdogSec=). If no
// watchdog is configured, it returns 0.
func WatchdogInterval() time.Duration {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0
	}
	return d
}
