package overhead

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load"
	"penstock/bench/process"
)

// lab starts engines and proxies for one measurement after the other.
type lab struct {
	dir      string
	key      string
	programs map[string]string // paths of the proxies beside us
	place    placement
}

func newLab() (*lab, error) {
	dir, err := os.MkdirTemp("", "penstock-overhead-")
	return &lab{dir: dir, key: rand.Text(), programs: map[string]string{}}, err
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// find looks for a proxy; /usr/sbin is not on every path.
func (l *lab) find(name string) (bool, error) {
	if proxyArgs[name] == nil {
		return false, exit.Usagef("--beside %s: want nginx or haproxy", name)
	}
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/local/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			l.programs[name] = found
			return true, nil
		}
	}
	return false, nil
}

// configs are the plain configurations of the proxies: one worker, no log, connections kept,
// nothing buffered.
//
//go:embed proxies/*.conf
var configs embed.FS

// proxyArgs stand before the path of the configuration.
var proxyArgs = map[string][]string{"nginx": {"-e", "stderr", "-c"}, "haproxy": {"-db", "-f"}}

// configure writes the configuration of a proxy and returns its path.
func (l *lab) configure(name, listen, engine string) (string, error) {
	source, err := configs.ReadFile("proxies/" + name + ".conf")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(l.key))
	text := strings.NewReplacer("{{.Dir}}", l.dir, "{{.Listen}}", listen, "{{.Engine}}", engine,
		"{{.KeyHash}}", hex.EncodeToString(sum[:])).Replace(string(source))
	path := filepath.Join(l.dir, name+".conf")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// run starts an engine and a target, plays the test and ends both.
func (l *lab) run(ctx context.Context, target string, t *measurement) (*trial, error) {
	sim, engine, err := process.StartSim(ctx, "engine", l.place.rest,
		append([]string{"--listen=127.0.0.1:0", "--slots=20000", "--cache-tokens=-1"}, t.engine...)...)
	if err != nil {
		return nil, err
	}
	defer sim.Kill()
	url, proxy := "http://"+engine, (*process.Child)(nil)
	if target != "direct" {
		if proxy, url, err = l.start(ctx, target, engine); err != nil {
			return nil, err
		}
		defer proxy.Kill()
	}
	o := t.options
	o.BaseURL, o.APIKey, o.Model, o.NoFloor, o.ReadyCheck, o.AllowCache = url, l.key, "sim", true, 10*time.Second, true
	m := &trial{streams: max(1, int(o.NumPrompts))}
	var watch sync.WaitGroup
	defer watch.Wait()
	if proxy != nil {
		begin, err := process.UsageOf(proxy.Cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		m.before = begin.Memory
		watched, stop := context.WithCancel(ctx)
		defer stop()
		watch.Go(func() { m.highest = highestMemory(watched, proxy.Cmd.Process.Pid) })
		defer stop()
		m.result, _, err = load.Run(ctx, o, nil)
		stop()
		watch.Wait()
		if err != nil {
			return nil, err
		}
		end, err := process.UsageOf(proxy.Cmd.Process.Pid)
		if err != nil {
			return nil, err
		}
		m.cpu = end.CPU - begin.CPU
	} else if m.result, _, err = load.Run(ctx, o, nil); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if m.result.Completed == 0 || float64(m.result.Failed) > load.MaxErrorShare*float64(m.result.NumPrompts) {
		return nil, errors.New(m.failures())
	}
	return m, nil
}

// start starts a proxy in front of an engine and waits until it answers.
func (l *lab) start(ctx context.Context, name, engine string) (*process.Child, string, error) {
	if name == "penstock" {
		config, err := l.configure(name, "", engine)
		if err != nil {
			return nil, "", err
		}
		c, url, _, err := process.StartEdge(ctx, name, l.place.proxy, config)
		return c, url, err
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	config, err := l.configure(name, listen, engine)
	if err != nil {
		return nil, "", err
	}
	argv := slices.Concat([]string{l.programs[name]}, proxyArgs[name], []string{config})
	if name == "nginx" {
		argv = append(argv, "-p", l.dir)
	}
	c, err := process.Start(ctx, name, argv, l.place.proxy, nil)
	if err != nil {
		return nil, "", err
	}
	for deadline := time.Now().Add(process.Patience); ; {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", listen); err == nil {
			_ = conn.Close()
			return c, "http://" + listen, nil
		}
		select {
		case <-c.Done:
			return nil, "", fmt.Errorf("start %s: it ended at once: %s", name, c.Last)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			c.Kill()
			return nil, "", fmt.Errorf("start %s: %w", name, errNoTarget)
		}
	}
}

// freeAddress finds a port that nobody listens on, for programs that cannot be asked which one they
// took.
func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// highestMemory samples a process until ctx ends.
func highestMemory(ctx context.Context, pid int) float64 {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	highest := 0.0
	for {
		if u, err := process.UsageOf(pid); err == nil {
			highest = max(highest, u.Memory)
		}
		select {
		case <-ctx.Done():
			return highest
		case <-tick.C:
		}
	}
}
