package http1

import (
	"os"
	"sync"
	"syscall"
)

// hangUpEvents is the mask of the watched events: the engine has closed its side, and errors, which
// epoll always reports. A connection is reported only once. With EPOLLET, every shutdown by hangUps
// would be reported again.
const hangUpEvents = syscall.EPOLLRDHUP | syscall.EPOLLONESHOT

// hangUps wakes exchanges whose engine hangs up while they stay in the runtime's poller
// (Exchange.Stay). The poller may report bytes and the end of the stream in one event. An exchange
// that has read the bytes would then wait for an event that never comes. A separate epoll set
// therefore reports only the end. Its goroutine runs while there are connections.
//
// To wake an exchange, hangUps shuts down the connection for reading. Bytes that have arrived can
// still be read, and the poller reports the connection once more. A stay that begins later misses
// this report. It ends because of poll.hungUp, which is set before the shutdown.
type hangUps struct {
	mu    sync.Mutex
	epoll *os.File // nil while there are no connections
	conns map[uint64]*conn
	last  uint64
}

var engineHangUps hangUps

// watch adds a connection to the epoll set, and reports whether it succeeded. If the goroutine has
// to be started, g guards it.
func (h *hangUps) watch(c *conn, g Guard) bool {
	if c.hangID.Load() != 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll == nil && !h.start(g) {
		return false
	}
	h.last++
	h.conns[h.last] = c
	c.hangID.Store(h.last)
	event := syscall.EpollEvent{Events: hangUpEvents, Fd: int32(h.last), Pad: int32(h.last >> 32)}
	failed := h.control(func(epoll uintptr) error {
		var ctl error
		err := c.raw.Control(func(fd uintptr) { ctl = syscall.EpollCtl(int(epoll), syscall.EPOLL_CTL_ADD, int(fd), &event) })
		if err != nil {
			return err
		}
		return ctl
	})
	if failed != nil {
		h.remove(c)
		return false
	}
	return true
}

// forget removes a connection that is being closed.
func (h *hangUps) forget(c *conn) {
	if c.hangID.Load() != 0 {
		h.mu.Lock()
		h.remove(c)
		h.mu.Unlock()
	}
}

// remove removes a connection. The caller holds mu.
func (h *hangUps) remove(c *conn) {
	delete(h.conns, c.hangID.Swap(0))
	if len(h.conns) == 0 && h.epoll != nil {
		_ = h.epoll.Close() // makes the goroutine exit
		h.epoll = nil
	}
}

// control runs f with the epoll set's descriptor.
func (h *hangUps) control(f func(epoll uintptr) error) error {
	raw, err := h.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(fd) }); err != nil {
		return err
	}
	return failed
}

// start creates the epoll set and starts the goroutine. The goroutine waits for the set in the
// runtime's poller, so it needs no thread. The caller holds mu.
func (h *hangUps) start(g Guard) bool {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return false
	}
	_ = syscall.SetNonblock(fd, true) // os.NewFile then adds it to the poller
	h.epoll = os.NewFile(uintptr(fd), "hang-ups")
	raw, err := h.epoll.SyscallConn()
	if err != nil {
		_ = h.epoll.Close()
		h.epoll = nil
		return false
	}
	if h.conns == nil {
		h.conns = map[uint64]*conn{}
	}
	set := h.epoll
	go g.Once(guardEngines, func() {
		defer h.stop(set)
		h.run(raw)
	})
	return true
}

// stop forgets the connections of an epoll set whose goroutine has exited. If it exited because of
// a panic, the next set watches them again.
func (h *hangUps) stop(set *os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoll != set {
		return
	}
	for _, c := range h.conns {
		c.hangID.Store(0)
	}
	clear(h.conns)
	_ = set.Close()
	h.epoll = nil
}

// run wakes connections until the epoll set is closed.
func (h *hangUps) run(raw syscall.RawConn) {
	var (
		events [64]syscall.EpollEvent
		n      int
	)
	for {
		err := raw.Read(func(fd uintptr) bool {
			n, _ = syscall.EpollWait(int(fd), events[:], 0)
			return n > 0
		})
		if err != nil {
			return
		}
		for _, e := range events[:n] {
			h.mu.Lock()
			c := h.conns[uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32]
			h.mu.Unlock()
			if c != nil {
				c.poll.hungUp.Store(true)
				_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RD) }) // fails only on a closed socket
			}
		}
	}
}

// interrupt ends a stay. It may be called from any goroutine. Closing the socket instead would
// block until a running step has returned.
func (c *conn) interrupt() {
	_ = c.raw.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) }) // fails only on a closed socket
}
