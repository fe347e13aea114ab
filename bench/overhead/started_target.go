package overhead

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/load"
	"penstock/bench/load/client"
	"penstock/bench/process"
)

// startedTarget is an engine and the target in front of it, started for one measurement.
type startedTarget struct {
	test       *measurement
	target     string
	key        string
	config     string // path of the target's configuration
	url, admin string
	proxy      *process.Child // nil if the engine is the target
}

// memorySettleTime is how long a process is idle before its memory is read.
const memorySettleTime = time.Second

func (s *startedTarget) measure(ctx context.Context) (*targetResult, error) {
	if s.test.perform != nil {
		return s.test.perform(ctx, s)
	}
	m, err := s.sendLoad(ctx)
	if err != nil {
		return nil, err
	}
	if m.result.Completed == 0 || float64(m.result.Failed) > load.MaxErrorShare*float64(m.result.NumPrompts) {
		return nil, errors.New(m.failureText())
	}
	return m, nil
}

// sendLoad sends the load of the measurement, and then reads how much CPU time and memory the proxy
// has used.
func (s *startedTarget) sendLoad(ctx context.Context) (*targetResult, error) {
	o := s.test.options
	o.BaseURL, o.APIKey, o.Model, o.NoFloor, o.ReadyCheck, o.AllowCache = s.url, s.key, "sim", true, 10*time.Second, true
	o.Insecure = s.test.tls
	if s.target == "penstock" && s.test.translated != "" {
		o.Mix = s.test.translated
	}
	m := &targetResult{held: max(1, int(o.NumPrompts))}
	if s.proxy == nil {
		var err error
		m.result, _, err = load.Run(ctx, o, nil)
		return m, err
	}
	pid := s.proxy.Cmd.Process.Pid
	begin, err := process.ReadUsage(pid)
	if err != nil {
		return nil, err
	}
	m.before = begin.Memory
	var watch sync.WaitGroup
	watched, stop := context.WithCancel(ctx)
	watch.Go(func() { m.highest = highestMemory(watched, pid) })
	m.result, _, err = load.Run(ctx, o, nil)
	stop()
	watch.Wait()
	if err != nil {
		return nil, err
	}
	end, err := process.ReadUsage(pid)
	m.cpu = end.CPU - begin.CPU
	return m, err
}

// highestMemory samples the memory of a process until ctx ends, and returns the maximum.
func highestMemory(ctx context.Context, pid int) float64 {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	highest := 0.0
	for {
		if u, err := process.ReadUsage(pid); err == nil {
			highest = max(highest, u.Memory)
		}
		select {
		case <-ctx.Done():
			return highest
		case <-tick.C:
		}
	}
}

// measureIdle reads the memory of a proxy that is idle.
func (s *startedTarget) measureIdle(ctx context.Context) (*targetResult, error) {
	if err := waitUnlessDone(ctx, memorySettleTime); err != nil {
		return nil, err
	}
	u, err := process.ReadUsage(s.proxy.Cmd.Process.Pid)
	return &targetResult{before: u.Memory}, err
}

// measureHeldConnections opens connections, reads one response on each connection, and then leaves
// the connections idle.
func (s *startedTarget) measureHeldConnections(ctx context.Context, count int) (*targetResult, error) {
	m, err := s.measureIdle(ctx)
	if err != nil {
		return nil, err
	}
	m.held = count
	_, address, _ := strings.Cut(s.url, "://")
	for range count {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if err := sendRequestOnConn(conn, address); err != nil {
			return nil, err
		}
	}
	after, err := s.measureIdle(ctx)
	if err != nil {
		return nil, err
	}
	m.highest = after.before
	return m, nil
}

// sendRequestOnConn sends a request that every target supports, and reads the response head.
func sendRequestOnConn(conn net.Conn, host string) error {
	_ = conn.SetDeadline(time.Now().Add(process.ReadyTimeout))
	if _, err := fmt.Fprintf(conn, "GET /health HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		err = fmt.Errorf("GET /health: %s", strings.TrimSpace(line))
	}
	return err
}

// reloadsPerTrial is odd, so that the median is one of the measured times.
const reloadsPerTrial = 5

// measureReloads measures reloadsPerTrial reloads. Before each reload, it changes the edge's
// configuration file.
func (s *startedTarget) measureReloads(ctx context.Context) (*targetResult, error) {
	text, err := os.ReadFile(s.config)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range reloadsPerTrial {
		d, err := s.reloadOnce(ctx, text, i)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	slices.Sort(took)
	return &targetResult{took: took[len(took)/2]}, nil
}

// reloadOnce writes the configuration with a limit that depends on number, and makes the edge
// reload it.
func (s *startedTarget) reloadOnce(ctx context.Context, text []byte, number int) (time.Duration, error) {
	limit := fmt.Appendf(nil, "requests_per_minute: %d", 2+number%7)
	changed := bytes.Replace(text, []byte("requests_per_minute: 1"), limit, 1)
	if bytes.Equal(changed, text) {
		return 0, errors.New("the configuration has no limit to change")
	}
	if err := os.WriteFile(s.config, changed, 0o600); err != nil {
		return 0, err
	}
	begin := time.Now()
	err := client.Post(ctx, s.admin, "/-/reload", nil, "", false)
	return time.Since(begin), err
}

// measureLoadDuringReloads sends the load twice. During the second load, the edge reloads every
// second.
func (s *startedTarget) measureLoadDuringReloads(ctx context.Context) (*targetResult, error) {
	calm, err := s.sendLoad(ctx)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(s.config)
	if err != nil {
		return nil, err
	}
	reloads, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.keepReloading(reloads, text) }()
	m, err := s.sendLoad(ctx)
	stop()
	if failed := <-ended; err == nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	if err != nil {
		return nil, err
	}
	m.undisturbed = calm.result
	return m, nil
}

// keepReloading reloads every second until ctx ends or a reload fails. It returns the error of the
// reload that failed.
func (s *startedTarget) keepReloading(ctx context.Context, text []byte) error {
	for i := 0; ; i++ {
		_, err := s.reloadOnce(ctx, text, i)
		if err == nil {
			err = waitUnlessDone(ctx, time.Second)
		}
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
	}
}

func waitUnlessDone(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
