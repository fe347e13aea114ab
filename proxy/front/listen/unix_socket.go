package listen

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"penstock/config/unixsocket"
)

// unixListener listens at a Unix socket. Its Addr is written as in the configuration.
type unixListener struct {
	*net.UnixListener
	file   string
	bound  string      // where the socket is: file, or beside it until TakePath
	own    fs.FileInfo // the socket in the file system; nil: a service manager's, which stays
	remove sync.Once
}

// unixAddr is an address as it is written in the configuration.
type unixAddr string

func (unixAddr) Network() string  { return "unix" }
func (a unixAddr) String() string { return string(a) }

// Addr implements net.Listener.
func (l *unixListener) Addr() net.Addr { return unixAddr(unixsocket.Address(l.file)) }

// Close closes the socket and removes it from the file system.
func (l *unixListener) Close() error {
	l.removeFile()
	return l.UnixListener.Close()
}

// removeFile removes the socket from the file system, so that clients no longer connect. If another
// socket has replaced it, that socket stays.
func (l *unixListener) removeFile() {
	l.remove.Do(func() {
		if l.own == nil {
			return
		}
		defer lockFolder(filepath.Dir(l.file))()
		if is, err := os.Lstat(l.bound); err == nil && os.SameFile(is, l.own) {
			_ = os.Remove(l.bound) // else the next start finds it stale
		}
	})
}

// listenUnix opens a Unix socket. A socket at its path at which no process listens is replaced. One
// at which a process listens is replaced only with takeOver, and only by TakePath: until then our
// socket is beside it. Anything else at the path stays.
func listenUnix(address string, takeOver bool) (net.Listener, error) {
	file, mode, err := unixsocket.Listen(address)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(file)
	if in, err := os.Stat(folder); err != nil || !in.IsDir() {
		return nil, fmt.Errorf("there is no folder %s: create it (systemd: RuntimeDirectory=), or mount it", folder)
	}
	defer lockFolder(folder)() // the lock keeps two processes from both finding the socket stale
	bind := file
	switch is, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case is.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("the file exists and is not a socket: choose another path, or remove it")
	case !listened(file):
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	case !takeOver:
		return nil, syscall.EADDRINUSE
	default:
		bind = filepath.Join(folder, "."+strconv.FormatUint(uint64(rand.Uint32()), 36))
	}
	l, err := bindUnix(bind, mode)
	if err != nil {
		return nil, err
	}
	l.file, l.bound = file, bind
	if l.own, err = os.Lstat(bind); err != nil {
		return nil, errors.Join(err, l.UnixListener.Close(), os.Remove(bind))
	}
	return l, nil
}

// TakePath makes the path of a Unix socket lead to ln if another process listens there. That process
// keeps the connections that it has accepted or queued, and ln gets the later ones. The path leads
// to a listening socket at every moment. TakePath does nothing for other listeners. It is called once
// ln will be served, because a start that fails must not cost the other process its clients.
func TakePath(ln net.Listener) error {
	l, ok := ln.(*unixListener)
	if !ok || l.bound == l.file {
		return nil
	}
	defer lockFolder(filepath.Dir(l.file))()
	if err := os.Rename(l.bound, l.file); err != nil {
		return err
	}
	l.bound = l.file
	return nil
}

func bindUnix(file string, mode fs.FileMode) (*unixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { limitMode(fd, mode) })
	}}
	ln, err := config.Listen(context.Background(), "unix", file)
	if err != nil {
		return nil, err
	}
	l := &unixListener{UnixListener: ln.(*net.UnixListener)}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(file, mode); err != nil {
		return nil, errors.Join(err, l.UnixListener.Close(), os.Remove(file))
	}
	return l, nil
}

// listened reports whether a process listens at a socket. It returns true if it cannot tell.
func listened(file string) bool {
	c, err := net.DialTimeout("unix", file, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}
