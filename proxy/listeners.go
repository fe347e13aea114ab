package proxy

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"penstock/config"
	"penstock/config/unixsocket"
	"penstock/proxy/front/listen"
)

type listeners struct {
	listen.InheritedSockets
	inherited         bool         // whether a service manager owns the public listener's socket
	challengeListener net.Listener // nil if tls.acme.http is not set
}

// openListeners opens the listeners that a service manager has not opened.
func openListeners(f *config.File, public, admin listen.PortOptions) (listeners, error) {
	sockets, err := listen.InheritSockets()
	if err != nil {
		return listeners{}, err
	}
	p := listeners{InheritedSockets: sockets, inherited: sockets.Public != nil}
	opened := false
	defer func() {
		if !opened {
			p.close()
		}
	}()
	if p.Public == nil {
		if p.Public, err = listen.Listen(f.Listen, public); err != nil {
			return listeners{}, explainListenError("listen", f.Listen, err)
		}
	}
	if p.Admin == nil && f.Admin.Listen != "" {
		if p.Admin, err = listen.Listen(f.Admin.Listen, admin); err != nil {
			return listeners{}, explainListenError("admin.listen", f.Admin.Listen, err)
		}
	}
	if at := f.TLS.ACME.HTTP; f.TLS.ACME.Enabled() && at != "" {
		if p.challengeListener, err = listen.Listen(at, public); err != nil {
			return listeners{}, explainListenError("tls.acme.http", at, err)
		}
	}
	opened = true
	return p, nil
}

// close closes all listeners. This also removes the files of Unix sockets.
func (p *listeners) close() {
	for _, ln := range []net.Listener{p.Public, p.Admin, p.challengeListener} {
		if ln != nil {
			_ = ln.Close() // fails if the server has already closed the listener
		}
	}
}

// explainListenError explains why the address of a setting could not be opened. For common reasons,
// it adds a remedy.
func explainListenError(setting, address string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s: %s is taken by another process: choose another address, or, for a second edge on it, start both with --share-port (an edge that runs without it must end first, or get its port from a socket unit)", setting, address)
	}
	if errors.Is(err, syscall.EACCES) && unixsocket.IsAddress(address) {
		return fmt.Errorf("%s: this user may not create %s: give it a folder that it may write to (systemd: RuntimeDirectory=)", setting, address)
	}
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("%s: this user may not open %s: choose a port from 1024 on, or let a socket unit of the service manager open it", setting, address)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // the OpError repeats the address
		err = op.Err
	}
	return fmt.Errorf("%s: %s: %w", setting, address, err)
}

// listenerScheme returns the scheme of a listener with certificate c, which may be nil.
func listenerScheme(c *listen.Certificate) string {
	if c == nil {
		return "http"
	}
	return "https"
}

// baseURL returns the base URL of a listener, or the address of its Unix socket.
func baseURL(ln net.Listener, scheme string) string {
	if ln == nil {
		return ""
	}
	addr := ln.Addr().String()
	if unixsocket.IsAddress(addr) {
		return addr
	}
	addr = strings.Replace(addr, "[::]", "127.0.0.1", 1)
	return scheme + "://" + strings.Replace(addr, "0.0.0.0", "127.0.0.1", 1)
}
