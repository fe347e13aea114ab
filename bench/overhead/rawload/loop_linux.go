package rawload

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Loop is the thread of the engine and the client.
type Loop struct {
	epoll, listener int
	address         netip.AddrPort
	conns           map[int]*conn
	events          [256]unix.EpollEvent

	runs chan *run
	stop chan struct{}
	done chan struct{}
	run  *run // nil while no load is running
}

// conn is a socket of the engine or the client.
type conn struct {
	fd     int
	run    *run      // the load to which a socket of the client belongs; nil for a socket of the engine
	due    time.Time // when the outstanding request was due
	buffer [8 << 10]byte
	n      int // number of bytes in buffer
}

// run is a load that is running.
type run struct {
	load     *Load
	conns    []*conn
	free     []*conn     // connections without an outstanding request, if there is a rate
	due      []time.Time // due times of the requests that wait for a connection
	nextDue  time.Time
	interval time.Duration
	timer    int // a descriptor that is readable when requests are due, or -1
	begun    time.Time
	result   Result
	err      error
	ended    chan struct{}
}

// pollTimeoutMillis limits how late the thread notices a new load or Close.
const pollTimeoutMillis = 10 // milliseconds

// Start starts the thread. The engine accepts connections from then on.
func Start() (*Loop, error) {
	l := &Loop{conns: map[int]*conn{}, runs: make(chan *run), stop: make(chan struct{}), done: make(chan struct{})}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err := l.listen(); err != nil {
		_ = unix.Close(l.epoll)
		return nil, err
	}
	go l.runEventLoop()
	return l, nil
}

func (l *Loop) listen() (err error) {
	if l.listener, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	err = unix.Bind(l.listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(l.listener, 1024)
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(l.listener)
	}
	if err == nil {
		err = l.watch(l.listener)
	}
	if err != nil {
		_ = unix.Close(l.listener)
		return err
	}
	in := name.(*unix.SockaddrInet4)
	l.address = netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port))
	return nil
}

// Address returns the address of the engine.
func (l *Loop) Address() string { return l.address.String() }

// Run sends a load and returns its result. It fails if any response is incomplete or has a status
// other than 200.
func (l *Loop) Run(ctx context.Context, load *Load) (*Result, error) {
	r := &run{load: load, timer: -1, ended: make(chan struct{})}
	if err := l.openConnections(r); err != nil {
		r.close()
		return nil, err
	}
	l.runs <- r
	select {
	case <-r.ended:
	case <-ctx.Done():
		l.Close()
		return nil, ctx.Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	slices.Sort(r.result.Latencies)
	return &r.result, nil
}

// openConnections opens the connections of the client.
func (l *Loop) openConnections(r *run) error {
	to, err := net.ResolveTCPAddr("tcp4", r.load.Address)
	if err != nil {
		return err
	}
	for range r.load.Conns {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		r.conns = append(r.conns, &conn{fd: fd, run: r})
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: to.AddrPort().Addr().As4()}); err != nil {
			return fmt.Errorf("connect to %s: %w", to, err)
		}
		if err := errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the thread and closes all sockets. It may be called more than once, but not
// concurrently.
func (l *Loop) Close() {
	select {
	case <-l.done:
		return
	default:
	}
	close(l.stop)
	<-l.done
}

func (l *Loop) runEventLoop() {
	runtime.LockOSThread()
	defer close(l.done)
	defer l.closeSockets()
	for {
		select {
		case <-l.stop:
			return
		case r := <-l.runs:
			l.beginRun(r)
		default:
		}
		n, err := unix.EpollWait(l.epoll, l.events[:], pollTimeoutMillis)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for i := range max(n, 0) {
			l.handleEvent(int(l.events[i].Fd))
		}
		if r := l.run; r != nil && (r.err != nil || time.Since(r.begun) >= r.load.Duration) {
			l.endRun(r)
		}
	}
}

func (l *Loop) closeSockets() {
	if l.run != nil {
		l.run.close()
	}
	for fd, c := range l.conns {
		if c.run == nil {
			_ = unix.Close(fd)
		}
	}
	_ = unix.Close(l.listener)
	_ = unix.Close(l.epoll)
}

func (l *Loop) watch(fd int) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// beginRun starts a load.
func (l *Loop) beginRun(r *run) {
	l.run = r
	for _, c := range r.conns {
		l.conns[c.fd] = c
		r.fail(l.watch(c.fd))
	}
	r.begun = time.Now()
	if r.load.Rate == 0 {
		for _, c := range r.conns {
			c.sendRequest(r.begun)
		}
		return
	}
	r.free = slices.Clone(r.conns)
	r.interval = time.Duration(float64(time.Second) / r.load.Rate)
	r.nextDue = r.begun.Add(r.interval)
	var err error
	if r.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC); err != nil {
		r.fail(err)
		return
	}
	each := unix.NsecToTimespec(int64(r.interval))
	r.fail(unix.TimerfdSettime(r.timer, 0, &unix.ItimerSpec{Interval: each, Value: each}, nil))
	r.fail(l.watch(r.timer))
}

// endRun ends a load. Responses that arrive later do not count.
func (l *Loop) endRun(r *run) {
	r.result.Elapsed = time.Since(r.begun)
	for _, c := range r.conns {
		delete(l.conns, c.fd)
	}
	r.close()
	l.run = nil
	close(r.ended)
}

func (r *run) close() {
	for _, c := range r.conns {
		_ = unix.Close(c.fd)
	}
	if r.timer >= 0 {
		_ = unix.Close(r.timer)
	}
}

func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// handleEvent handles an event of a descriptor. It ignores descriptors that have been closed in the
// meantime.
func (l *Loop) handleEvent(fd int) {
	if fd == l.listener {
		l.accept()
		return
	}
	if l.run != nil && fd == l.run.timer {
		l.run.sendDue()
		return
	}
	c := l.conns[fd]
	if c == nil {
		return
	}
	err := c.receive()
	switch {
	case err == nil:
	case c.run != nil:
		c.run.fail(err)
	default:
		delete(l.conns, fd)
		_ = unix.Close(fd)
	}
}

func (l *Loop) accept() {
	for {
		fd, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		if l.watch(fd) != nil {
			_ = unix.Close(fd)
			continue
		}
		l.conns[fd] = &conn{fd: fd}
	}
}

// sendDue sends the requests that have become due.
func (r *run) sendDue() {
	var count [8]byte
	if n, err := unix.Read(r.timer, count[:]); n != len(count) || err != nil {
		return
	}
	for range binary.NativeEndian.Uint64(count[:]) {
		r.due = append(r.due, r.nextDue)
		r.nextDue = r.nextDue.Add(r.interval)
	}
	for len(r.due) > 0 && len(r.free) > 0 {
		c := r.free[len(r.free)-1]
		r.free = r.free[:len(r.free)-1]
		r.sendNext(c)
	}
}

func (r *run) sendNext(c *conn) {
	c.sendRequest(r.due[0])
	r.due = r.due[1:]
}

// sendRequest sends a request.
func (c *conn) sendRequest(due time.Time) {
	c.due = due
	c.run.fail(c.send(c.run.load.Request))
}

// send sends b. It fails if the socket's buffer has too little space for b.
func (c *conn) send(b []byte) error {
	n, err := unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL)
	if err == nil && n < len(b) {
		err = errors.New("the socket's buffer is full")
	}
	return err
}

// receive reads what has arrived. If a message is complete, it handles the message.
func (c *conn) receive() error {
	n, err := unix.Read(c.fd, c.buffer[c.n:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return err
	case n <= 0:
		return errors.New("the connection has ended")
	}
	c.n += n
	length, err := messageLength(c.buffer[:c.n])
	switch {
	case err != nil:
		return err
	case length > len(c.buffer) || length > 0 && c.n > length:
		return errors.New("a message is too long")
	case length == 0 || c.n < length:
		return nil
	}
	c.n = 0
	if c.run == nil {
		return c.send(engineResponse(c.buffer[:length]))
	}
	return c.handleMessage(c.buffer[:length])
}

// handleMessage records a response, and sends the next request.
func (c *conn) handleMessage(b []byte) error {
	if err := checkStatus(b); err != nil {
		return err
	}
	r, now := c.run, time.Now()
	r.result.Completed++
	r.result.Latencies = append(r.result.Latencies, now.Sub(c.due))
	switch {
	case r.load.Rate == 0:
		c.sendRequest(now)
	case len(r.due) > 0:
		r.sendNext(c)
	default:
		r.free = append(r.free, c)
	}
	return nil
}
