package sim

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// server contains the listener and the connections of an engine.
type server struct {
	mu       sync.Mutex
	ln       net.Listener
	addr     string // address of the first listener, which relisten reuses
	onConn   func(net.Conn)
	conns    map[*conn]struct{}
	accepted atomic.Int64
	closed   bool
	wg       sync.WaitGroup
	stop     chan struct{} // closed by close
}

const unixPrefix = "unix:"

func newServer() *server { return &server{conns: map[*conn]struct{}{}, stop: make(chan struct{})} }

// start listens, and passes each accepted connection to take.
func (s *server) start(addr string, take func(net.Conn)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addr != "" || s.closed {
		return errors.New("simulated engine was started before")
	}
	s.onConn = take
	return s.listen(addr)
}

// listen opens the listener. The caller holds mu.
func (s *server) listen(addr string) error {
	network := "tcp"
	file, local := strings.CutPrefix(addr, unixPrefix)
	if local {
		network, addr = "unix", file
	}
	ln, err := net.Listen(network, addr)
	if err != nil {
		return fmt.Errorf("listen for simulated engine: %w", err)
	}
	if s.ln, s.addr = ln, ln.Addr().String(); local {
		s.addr = unixPrefix + s.addr
	}
	s.wg.Go(func() { s.accept(ln) })
	return nil
}

func (s *server) unlisten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ln != nil {
		_ = s.ln.Close()
		s.ln = nil
	}
}

func (s *server) relisten() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.addr == "" {
		return errors.New("simulated engine is not running")
	}
	if s.ln != nil {
		return nil
	}
	return s.listen(s.addr)
}

// dropConns closes a share of the connections. It never closes spare, which is the connection of
// the control request.
func (s *server) dropConns(share float64, reset bool, spare *conn) int {
	var victims []*conn
	s.mu.Lock()
	for c := range s.conns {
		if c != spare {
			victims = append(victims, c)
		}
	}
	s.mu.Unlock()
	victims = victims[:int(float64(len(victims))*min(max(share, 0), 1)+0.5)]
	for _, c := range victims {
		if reset {
			c.reset()
		} else {
			c.close()
		}
	}
	return len(victims)
}

func (s *server) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	if s.ln != nil {
		_ = s.ln.Close()
		s.ln = nil
	}
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// openCount returns the number of open connections.
func (s *server) openCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *server) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// No file descriptor is left, so wait until some connections are closed.
			time.Sleep(5 * time.Millisecond)
			continue
		}
		s.onConn(nc)
	}
}

// serve serves a connection in the background.
func (s *server) serve(nc net.Conn, c *conn) {
	s.accepted.Add(1)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}
