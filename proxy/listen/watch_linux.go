package listen

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"penstock/proxy/guard"
)

// watch is one epoll set and the goroutine that waits on it.
type watch struct {
	ln          *Listener
	every       time.Duration // see sweep
	epoll, wake int
	done        chan struct{}

	mu  sync.Mutex
	fds map[int32]*Conn
}

// hangups is what a connection is watched for: the peer's FIN, and the errors that are always reported.
const hangups = unix.EPOLLRDHUP | unix.EPOLLET

func newWatch(l *Listener) (*watch, error) { return newSweepingWatch(l, sweepEvery) }

func newSweepingWatch(l *Listener, every time.Duration) (*watch, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(err, unix.Close(epoll))
	}
	w := &watch{ln: l, every: every, epoll: epoll, wake: wake, done: make(chan struct{}), fds: map[int32]*Conn{}}
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: -1}); err != nil {
		return nil, errors.Join(err, unix.Close(epoll), unix.Close(wake))
	}
	go l.guard.Loop(w.done, guard.Clients, w.run)
	return w, nil
}

// add registers c for the rest of its life.
func (w *watch) add(c *Conn) error {
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
		ctl = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: hangups, Fd: int32(fd), Pad: int32(c.generation)})
	})
	return errors.Join(err, ctl)
}

// remove forgets c before its descriptor is closed, which takes it out of the epoll set.
func (w *watch) remove(c *Conn) {
	w.mu.Lock()
	if c.fd >= 0 && w.fds[int32(c.fd)] == c {
		delete(w.fds, int32(c.fd))
	}
	w.mu.Unlock()
}

func (w *watch) run() {
	events := make([]unix.EpollEvent, 128)
	sweepAt := time.Now().Add(w.every)
	for {
		left := time.Until(sweepAt)
		if left <= 0 {
			left, sweepAt = w.every, time.Now().Add(w.every)
			w.ln.guard.Once(guard.Clients, func() { w.sweep(w.every) })
		}
		n, err := unix.EpollWait(w.epoll, events, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			close(w.done)
			return // closed
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

// dispatch tells the connection that ev is about. One of an earlier generation was closed after ev had been fetched, and the
// descriptor is another connection's by now. An event comes once, so a panic must not take the others of its round along.
func (w *watch) dispatch(ev unix.EpollEvent) {
	defer w.ln.guard.Catch(guard.Clients, nil)
	w.mu.Lock()
	c := w.fds[ev.Fd]
	w.mu.Unlock()
	if c != nil && int32(c.generation) == ev.Pad {
		c.lost()
	}
}

// close ends the goroutine and frees the set.
func (w *watch) close() error {
	if _, err := unix.Write(w.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	<-w.done
	return errors.Join(unix.Close(w.epoll), unix.Close(w.wake))
}
