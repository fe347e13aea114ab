package overhead

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	program  string
	key      string
	programs map[string]string // paths of the proxies beside us
	place    placement
}

func newLab() (*lab, error) {
	program, err := process.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "penstock-overhead-")
	if err != nil {
		return nil, err
	}
	return &lab{dir: dir, program: program, key: rand.Text(), programs: map[string]string{}}, nil
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// find looks for a proxy; /usr/sbin is not on every path.
func (l *lab) find(name string) (bool, error) {
	if proxyConfigs[name] == nil {
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

// proxyConfigs are the plain configurations of the proxies beside us: one worker, no log, connections kept, nothing buffered.
var proxyConfigs = map[string]func(dir, listen, engine string) (file string, args []string){
	"nginx": func(dir, listen, engine string) (string, []string) {
		return `daemon off;
master_process off;
worker_processes 1;
pid ` + dir + `/nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path ` + dir + `/body;
  proxy_temp_path ` + dir + `/proxy;
  fastcgi_temp_path ` + dir + `/fastcgi;
  uwsgi_temp_path ` + dir + `/uwsgi;
  scgi_temp_path ` + dir + `/scgi;
  keepalive_requests 1000000;
  upstream engine { server ` + engine + `; keepalive 1024; keepalive_requests 1000000; }
  server {
    listen ` + listen + `;
    client_max_body_size 64m;
    location / {
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
`, []string{"-p", dir, "-e", "stderr", "-c"}
	},
	"haproxy": func(_, listen, engine string) (string, []string) {
		return `global
  nbthread 1
  maxconn 8192
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend clients
  bind ` + listen + `
  default_backend engines
backend engines
  http-reuse always
  server engine ` + engine + `
`, []string{"-db", "-f"}
	},
}

// edgeConfig is the edge with everything on but the access log: a key with limits, a checked body, a pick, metrics.
func (l *lab) edgeConfig(engine string) string {
	sum := sha256.Sum256([]byte(l.key))
	return fmt.Sprintf(`listen: 127.0.0.1:0
admin: { listen: 127.0.0.1:0 }
log: { access: false }
timeouts: { connect: 10s }
keys:
  - { id: bench, hash: "sha256:%s", limits: { requests_per_minute: 100000000, tokens_per_minute: 100000000000, concurrency: 20000 } }
upstreams:
  - { name: engine, url: "http://%s", engine: sim, concurrency: 20000 }
models:
  - { id: sim, deployments: [{ upstream: engine }] }
`, hex.EncodeToString(sum[:]), engine)
}

// run starts an engine and a target, plays the test and ends both.
func (l *lab) run(ctx context.Context, target string, t *measurement) (*trial, error) {
	engine := ""
	argv := append([]string{l.program, "sim", "--listen=127.0.0.1:0", "--slots=20000", "--cache-tokens=-1"}, t.engine...)
	sim, err := process.Start(ctx, "engine", argv, l.place.rest, func(line string) bool {
		_, rest, ok := strings.Cut(line, " listening on http://")
		engine, _, _ = strings.Cut(rest, ",")
		return ok
	})
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
	o.BaseURL, o.APIKey, o.Model, o.NoFloor, o.ReadyCheck, o.AllowCache = url, l.key, "sim", true, 10, true
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
		m.cpu = end.Cpu - begin.Cpu
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
	config := filepath.Join(l.dir, name+".conf")
	if name == "penstock" {
		if err := os.WriteFile(config, []byte(l.edgeConfig(engine)), 0o600); err != nil {
			return nil, "", err
		}
		url := ""
		c, err := process.Start(ctx, name, []string{l.program, "serve", "--config", config}, l.place.proxy, func(line string) bool {
			rest, ok := strings.CutPrefix(line, "penstock: serving ")
			rest, _, _ = strings.Cut(rest, " ")
			url = strings.TrimSuffix(rest, "/v1")
			return ok
		})
		return c, url, err
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return nil, "", err
	}
	text, args := proxyConfigs[name](l.dir, listen, engine)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	c, err := process.Start(ctx, name, append(append([]string{l.programs[name]}, args...), config), l.place.proxy, nil)
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

// freeAddress finds a port that nobody listens on, for programs that cannot be asked which one they took.
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
