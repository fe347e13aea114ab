package listen

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"penstock/proxy/telemetry/guard"
)

// disconnectWatch detects clients that disconnect, using one epoll set and one goroutine.
type disconnectWatch struct {
	ln          *Listener
	ackInterval time.Duration
	epoll, wake int
	done        chan struct{}

	mu  sync.Mutex
	fds map[int32]*Conn
}

// hangups are the events that are watched for on a connection: the peer's FIN and errors, which
// epoll always reports.
const hangups = unix.EPOLLRDHUP | unix.EPOLLET

func newDisconnectWatch(l *Listener) (*disconnectWatch, error) {
	return newDisconnectWatchEvery(l, ackCheckInterval)
}

func newDisconnectWatchEvery(l *Listener, every time.Duration) (*disconnectWatch, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(err, unix.Close(epoll))
	}
	w := &disconnectWatch{
		ln: l, ackInterval: every, epoll: epoll, wake: wake, done: make(chan struct{}),
		fds: map[int32]*Conn{},
	}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake,
		&unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}); err != nil {
		return nil, errors.Join(err, unix.Close(epoll), unix.Close(wake))
	}
	go l.guard.Loop(w.done, guard.Clients, w.run)
	return w, nil
}

func (w *disconnectWatch) add(c *Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var ctl error
	err = raw.Control(func(fd uintptr) {
		c.fd = int(fd)
		w.mu.Lock()
		w.fds[int32(fd)] = c
		w.mu.Unlock()
		ctl = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd),
			&unix.EpollEvent{Events: hangups, Fd: int32(fd), Pad: int32(c.generation)})
	})
	return errors.Join(err, ctl)
}

// remove must be called before the descriptor of c is closed. Closing the descriptor then removes
// it from the epoll set.
func (w *disconnectWatch) remove(c *Conn) {
	w.mu.Lock()
	if c.fd >= 0 && w.fds[int32(c.fd)] == c {
		delete(w.fds, int32(c.fd))
	}
	w.mu.Unlock()
}

func (w *disconnectWatch) run() {
	events := make([]unix.EpollEvent, 128)
	sweepAt := time.Now().Add(w.ackInterval)
	for {
		left := time.Until(sweepAt)
		if left <= 0 {
			left, sweepAt = w.ackInterval, time.Now().Add(w.ackInterval)
			w.ln.guard.Once(guard.Clients, func() { w.checkAcks(w.ackInterval) })
		}
		n, err := unix.EpollWait(w.epoll, events, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			close(w.done)
			return
		}
		for _, ev := range events[:max(n, 0)] {
			if ev.Fd < 0 {
				close(w.done)
				return
			}
			w.dispatch(ev)
		}
	}
}

// dispatch notifies the connection for which an event is meant. If the generations differ, that
// connection was closed, and its descriptor belongs to another connection. Each event is delivered
// only once, so a panic must not lose the other events in the batch.
func (w *disconnectWatch) dispatch(ev unix.EpollEvent) {
	defer w.ln.guard.Catch(guard.Clients, nil)
	w.mu.Lock()
	c := w.fds[ev.Fd]
	w.mu.Unlock()
	if c != nil && int32(c.generation) == ev.Pad {
		c.client.hasLeft(w.ln.guard)
	}
}

func (w *disconnectWatch) close() error {
	if _, err := unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	<-w.done
	return errors.Join(unix.Close(w.epoll), unix.Close(w.wake))
}
