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
	"strconv"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/process"
)

// testBench starts engines and proxies, for one measurement at a time.
type testBench struct {
	dir      string
	key      string
	programs map[string]string // paths of the other proxies
	// connections is the maximum number of a proxy's connections to clients and engines.
	connections int
	placement   cpuPlacement
}

func newTestBench() (*testBench, error) {
	dir, err := os.MkdirTemp("", "penstock-overhead-")
	return &testBench{dir: dir, key: rand.Text(), programs: map[string]string{}}, err
}

func (l *testBench) close() { _ = os.RemoveAll(l.dir) }

// findProgram searches for the program of a proxy. It also searches /usr/sbin, because that
// directory is not in every user's PATH.
func (l *testBench) findProgram(name string) (bool, error) {
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

// proxyConfigs contains minimal configurations of the proxies: one worker, no log, keep-alive, and
// no buffering.
//
//go:embed proxies/*.conf
var proxyConfigs embed.FS

// proxyArgs contains, for each proxy, the arguments that precede the path of its configuration.
var proxyArgs = map[string][]string{"nginx": {"-e", "stderr", "-c"}, "haproxy": {"-db", "-f"}}

// tlsConfigTexts contains the configuration text that enables TLS in each proxy. The certificate
// and its key are in one file.
var tlsConfigTexts = map[string]string{
	"nginx":    " ssl; ssl_certificate {{.Certificate}}; ssl_certificate_key {{.Certificate}}",
	"haproxy":  " ssl crt {{.Certificate}}",
	"penstock": `tls: { cert: "{{.Certificate}}", key: "{{.Certificate}}" }`,
}

// writeProxyConfig writes the configuration of a proxy and returns its path.
func (l *testBench) writeProxyConfig(name, listen, engine string, t *measurement) (string, error) {
	source, err := proxyConfigs.ReadFile("proxies/" + name + ".conf")
	if err != nil {
		return "", err
	}
	var tls string
	if t.tls {
		file, err := writeCertificate(l.dir)
		if err != nil {
			return "", err
		}
		tls = strings.ReplaceAll(tlsConfigTexts[name], "{{.Certificate}}", file)
	}
	var more largeConfig
	if t.useLargeConfig {
		more = newLargeConfig(engine)
	}
	kind := "sim"
	if t.raw != nil {
		kind = "openai"
	}
	sum := sha256.Sum256([]byte(l.key))
	text := strings.NewReplacer("{{.Dir}}", l.dir, "{{.Listen}}", listen, "{{.Engine}}", engine, "{{.Kind}}", kind, "{{.TLS}}", tls,
		"{{.Connections}}", strconv.Itoa(l.connections), "{{.KeyHash}}", hex.EncodeToString(sum[:]),
		"{{.Keys}}", more.keys, "{{.Upstreams}}", more.upstreams, "{{.Deployments}}", more.deployments,
	).Replace(string(source))
	path := filepath.Join(l.dir, name+".conf")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func (l *testBench) measureTarget(ctx context.Context, target string, t *measurement) (*targetResult, error) {
	if t.raw != nil {
		return l.measureRaw(ctx, target, t)
	}
	sim, engine, err := process.StartSim(ctx, "engine", l.placement.otherCPUs,
		append([]string{"--listen=127.0.0.1:0", "--slots=20000", "--cache-tokens=-1"}, t.engine...)...)
	if err != nil {
		return nil, err
	}
	defer sim.Kill()
	s := &startedTarget{test: t, target: target, key: l.key, url: "http://" + engine}
	if target != "direct" {
		if err := l.startTarget(ctx, s, engine); err != nil {
			return nil, err
		}
		defer s.proxy.Kill()
	}
	m, err := s.measure(ctx)
	if err != nil {
		return nil, err
	}
	return m, ctx.Err()
}

// startTarget starts a proxy in front of an engine and waits until it accepts connections.
func (l *testBench) startTarget(ctx context.Context, s *startedTarget, engine string) (err error) {
	if s.target == "penstock" {
		if s.config, err = l.writeProxyConfig(s.target, "", engine, s.test); err != nil {
			return err
		}
		s.proxy, s.url, s.admin, err = process.StartEdge(ctx, s.target, l.placement.proxyCPUs, s.config)
		return err
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	if s.config, err = l.writeProxyConfig(s.target, listen, engine, s.test); err != nil {
		return err
	}
	if s.url = "http://" + listen; s.test.tls {
		s.url = "https://" + listen
	}
	argv := slices.Concat([]string{l.programs[s.target]}, proxyArgs[s.target], []string{s.config})
	if s.target == "nginx" {
		argv = append(argv, "-p", l.dir)
	}
	if s.proxy, err = process.Start(ctx, s.target, argv, l.placement.proxyCPUs, nil); err != nil {
		return err
	}
	return s.waitAccepting(ctx, listen)
}

// waitAccepting waits until the proxy accepts connections.
func (s *startedTarget) waitAccepting(ctx context.Context, listen string) error {
	for deadline := time.Now().Add(process.ReadyTimeout); ; {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", listen); err == nil {
			return conn.Close()
		}
		select {
		case <-s.proxy.Done:
			return fmt.Errorf("start %s: it ended at once: %s", s.target, s.proxy.Last)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.proxy.Kill()
			return fmt.Errorf("start %s: %w", s.target, errProxyNotStarted)
		}
	}
}

// errProxyNotStarted means that a proxy did not start.
var errProxyNotStarted = errors.New("it does not answer")

// freeAddress returns an unused address, for programs that cannot report their port.
func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}
