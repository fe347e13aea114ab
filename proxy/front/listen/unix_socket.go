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

// unixListener listens on a Unix socket. Its Addr has the format used in the configuration.
type unixListener struct {
	*net.UnixListener
	socketPath string
	// Path at which the socket was created. It may differ from socketPath until TakeOverPath is
	// called.
	boundPath  string
	ownInfo    fs.FileInfo // nil if the socket belongs to a service manager and must not be removed
	removeOnce sync.Once
}

type unixAddr string

func (unixAddr) Network() string  { return "unix" }
func (a unixAddr) String() string { return string(a) }

func (l *unixListener) Addr() net.Addr { return unixAddr(unixsocket.FormatAddress(l.socketPath)) }

// Close closes the socket and removes it from the file system.
func (l *unixListener) Close() error {
	l.removeFile()
	return l.UnixListener.Close()
}

// removeFile removes the socket from the file system if no other socket has replaced it.
func (l *unixListener) removeFile() {
	l.removeOnce.Do(func() {
		if l.ownInfo == nil {
			return
		}
		defer lockSocketFolder(filepath.Dir(l.socketPath))()
		if is, err := os.Lstat(l.boundPath); err == nil && os.SameFile(is, l.ownInfo) {
			_ = os.Remove(l.boundPath) // if this fails, the next start replaces the stale socket
		}
	})
}

// listenUnix opens a Unix socket. If there is a stale socket at the path, on which no process
// listens, listenUnix replaces that socket. If a process listens on the existing socket, takeOver
// must be true. The new socket then gets a temporary path, and TakeOverPath later replaces the old
// socket. If there is any other file at the path, listenUnix returns an error.
func listenUnix(address string, takeOver bool) (net.Listener, error) {
	file, mode, err := unixsocket.ParseListen(address)
	if err != nil {
		return nil, err
	}
	folder := filepath.Dir(file)
	if in, err := os.Stat(folder); err != nil || !in.IsDir() {
		return nil, fmt.Errorf("there is no folder %s: create it (systemd: RuntimeDirectory=), or mount it", folder)
	}
	defer lockSocketFolder(folder)() // prevents two processes from both finding the socket stale
	bind := file
	switch is, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case is.Mode().Type() != fs.ModeSocket:
		return nil, errors.New("the file exists and is not a socket: choose another path, or remove it")
	case !hasLiveListener(file):
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
	l.socketPath, l.boundPath = file, bind
	if l.ownInfo, err = os.Lstat(bind); err != nil {
		return nil, errors.Join(err, l.UnixListener.Close(), os.Remove(bind))
	}
	return l, nil
}

// TakeOverPath moves the socket of ln to its path if another process is listening there. That
// process keeps its accepted and queued connections, and ln gets all later connections. At every
// moment, a process is listening on the path. For any other listener, TakeOverPath does nothing. It
// must be called only after a successful start, because a failed start must not take clients from
// the other process.
func TakeOverPath(ln net.Listener) error {
	l, ok := ln.(*unixListener)
	if !ok || l.boundPath == l.socketPath {
		return nil
	}
	defer lockSocketFolder(filepath.Dir(l.socketPath))()
	if err := os.Rename(l.boundPath, l.socketPath); err != nil {
		return err
	}
	l.boundPath = l.socketPath
	return nil
}

func bindUnix(file string, mode fs.FileMode) (*unixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { limitSocketPermissions(fd, mode) })
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

// hasLiveListener reports whether a process listens on a socket. It returns true if this is unknown.
func hasLiveListener(file string) bool {
	c, err := net.DialTimeout("unix", file, time.Second)
	if err == nil {
		_ = c.Close()
	}
	return !errors.Is(err, syscall.ECONNREFUSED)
}
