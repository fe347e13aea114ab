package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/process"
)

const edgeCount = 4

var keyLimits = map[string]string{
	"r60": "requests_per_minute: 60", "r600": "requests_per_minute: 600", "r6000": "requests_per_minute: 6000",
	"calm": "requests_per_minute: 600", "slots": "concurrency: 20", "free": "",
	"burst-slots":  fmt.Sprintf("concurrency: %d", burstSlots),
	"burst-limits": fmt.Sprintf("requests_per_minute: 60000, tokens_per_minute: 2000000, concurrency: %d", burstSlots),
}

// burstSlots is enough for a burst, for the single calls between bursts, and for the tenth of the
// slots that edges reserve in advance.
const (
	maxBurstCalls = 100
	burstSlots    = 128
)

// slotCount is the number of slots of the key "slots" and of the engine whose slots are exact.
const slotCount = 20

// engineNames names the engines by their purpose.
var engineNames = []string{"gpu-a", "gpu-b", "gpu-c", "keyed", "exact"}

// testFleet is the fleet with its store and engines. close stops them all.
type testFleet struct {
	dir     string
	keys    map[string]string // by id
	secret  string
	engines map[string]*simEngine
	store   storeProcess
	edges   [edgeCount]*edgeProcess
}

type simEngine struct {
	process *process.Child
	url     string
}

type edgeProcess struct {
	process    *process.Child
	url, admin string
}

// storeProcess is a Valkey or Redis that keeps its data only in memory.
type storeProcess struct {
	program string
	dir     string
	port    int
	process *process.Child
}

func findStore() (string, error) {
	for _, name := range []string{"valkey-server", "redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exit.NewError(exit.Failed,
		"a fleet needs a store: there is neither a valkey-server nor a redis-server in PATH. "+
			"Install one, such as by apt-get install redis-server")
}

// start starts the store, the engines and the edges, and waits until all edges know each other.
func (w *testFleet) start(ctx context.Context) (err error) {
	program, err := findStore()
	if err != nil {
		return err
	}
	if w.dir, err = os.MkdirTemp("", "penstock-fleet-"); err != nil {
		return err
	}
	w.store = storeProcess{program: program, dir: w.dir}
	if w.store.port, err = freePort(); err != nil {
		return err
	}
	if err = w.store.start(ctx); err != nil {
		return err
	}
	w.engines = map[string]*simEngine{}
	for i, name := range engineNames {
		e := &simEngine{}
		e.process, e.url, err = process.StartSim(ctx, "engine "+name, nil, "--listen=127.0.0.1:0", "--slots=256",
			"--prefill-rate=5000", "--seed="+strconv.Itoa(i))
		if err != nil {
			return err
		}
		e.url = "http://" + e.url
		w.engines[name] = e
	}
	if err = w.writeConfig(); err != nil {
		return err
	}
	for i := range w.edges {
		if err = w.startEdge(ctx, i); err != nil {
			return err
		}
	}
	return w.waitJoined(ctx)
}

func (w *testFleet) startEdge(ctx context.Context, i int) (err error) {
	e := &edgeProcess{}
	e.process, e.url, e.admin, err = process.StartEdge(ctx, "edge "+strconv.Itoa(i+1), nil, w.configPath())
	if err == nil {
		w.edges[i] = e
	}
	return err
}

// waitJoined waits until every edge knows all other edges.
func (w *testFleet) waitJoined(ctx context.Context) error {
	return waitUntil(ctx, process.ReadyTimeout, "every edge knows of all", func() bool {
		ok := true
		for _, e := range w.edges {
			page := string(e.metrics(ctx))
			ok = ok && strings.Contains(page, "penstock_fleet_members "+strconv.Itoa(edgeCount)+"\n") &&
				strings.Contains(page, "penstock_fleet_board_edges "+strconv.Itoa(edgeCount)+"\n")
		}
		return ok
	})
}

func (w *testFleet) configPath() string { return filepath.Join(w.dir, "edge.yaml") }

func (w *testFleet) writeConfig() error {
	var b strings.Builder
	w.secret, w.keys = randomHex(), map[string]string{}
	fmt.Fprintf(&b,
		"listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\nlog: { access: false, debug_headers: true }\n"+
			"fleet: { edges: %d, store: { url: \"redis://127.0.0.1:%d\" }, keys: { secrets: [%s] } }\nkeys:\n",
		edgeCount, w.store.port, w.secret)
	for id, limit := range keyLimits {
		w.keys[id] = randomHex()
		hash := sha256.Sum256([]byte(w.keys[id]))
		fmt.Fprintf(&b, "  - { id: %s, hash: \"sha256:%x\", models: [\"*\"], limits: { %s } }\n", id, hash, limit)
	}
	b.WriteString("upstreams:\n")
	for _, name := range engineNames {
		concurrency := "256"
		if name == "exact" {
			concurrency = fmt.Sprintf("{ shared: %d, fleet: exact }", slotCount)
		}
		fmt.Fprintf(&b, "  - { name: %s, url: %q, engine: sim, concurrency: %s }\n", name, w.engines[name].url,
			concurrency)
	}
	gpus := " deployments: ["
	for _, name := range engineNames[:3] {
		gpus += "{ upstream: " + name + ", served: sim },"
	}
	b.WriteString("models:\n  - { id: sim," + gpus + "] }\n  - { id: chat, policy: prefix_affinity," + gpus + "] }\n")
	for _, name := range engineNames[3:] {
		fmt.Fprintf(&b, "  - { id: %s, deployments: [{ upstream: %s, served: sim }] }\n", name, name)
	}
	return os.WriteFile(w.configPath(), []byte(b.String()), 0o600)
}

func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (w *testFleet) close() {
	for _, e := range w.edges {
		if e != nil {
			e.process.Kill()
		}
	}
	for _, e := range w.engines {
		if e.process != nil {
			e.process.Kill()
		}
	}
	if w.store.process != nil {
		w.store.process.Kill()
	}
	if w.dir != "" {
		_ = os.RemoveAll(w.dir)
	}
}

func (s *storeProcess) start(ctx context.Context) (err error) {
	s.process, err = process.Start(ctx, "the store", []string{
		s.program, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--save", "", "--dir", s.dir,
		"--maxmemory-policy", "noeviction",
	}, nil, func(line string) bool { return strings.Contains(line, "Ready to accept connections") })
	return err
}

// sendCommand sends a command to the store and returns the answer: the whole text for INFO, and
// only the first line for any other command.
func (s *storeProcess) sendCommand(command string) (string, error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	fmt.Fprintf(c, "%s\r\n", command)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", errors.New(strings.TrimSpace(line))
	case !strings.HasPrefix(line, "$"):
		return line, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return "", err
	}
	text := make([]byte, n)
	for read := 0; read < n && err == nil; {
		var more int
		more, err = r.Read(text[read:])
		read += more
	}
	return string(text), err
}

// fetchPage returns a page of a server, or nil if the page cannot be fetched.
func fetchPage(ctx context.Context, base, path string) []byte {
	t, err := client.NewTarget(base, false, nil)
	if err != nil {
		return nil
	}
	p, err := t.Fetch(ctx, t.Path+path, nil, nil)
	if err != nil || p.Status != 200 {
		return nil
	}
	return p.Body
}

func (e *edgeProcess) metrics(ctx context.Context) []byte { return fetchPage(ctx, e.admin, "/metrics") }

type engineStats struct {
	Running   int   `json:"running"`
	Peak      int   `json:"peak"`
	Completed int64 `json:"completed"`
	Tests     int64 `json:"tests"`
	Tokens    int64 `json:"tokens"`
	Prompted  int64 `json:"prompt_tokens"`
}

func (e *simEngine) stats(ctx context.Context) (s engineStats) {
	// If the page cannot be fetched, the stats stay empty.
	_ = json.Unmarshal(fetchPage(ctx, e.url, "/sim/stats"), &s)
	return s
}

func waitUntil(ctx context.Context, most time.Duration, what string, ok func() bool) error {
	for end := time.Now().Add(most); ; {
		switch {
		case ok():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("not within %s: %s", most, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
