package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const edgeKey = "icount-key-that-is-only-used-on-loopback"

// buildOutput contains the paths of the built program and the plugin, and the program's functions
// by address.
type buildOutput struct {
	dir, program, plugin string
	functions            []functionSymbol
}

type functionSymbol struct {
	address uint64
	name    string
}

func buildProgram(dir string) (*buildOutput, error) {
	b := &buildOutput{dir: dir, program: filepath.Join(dir, "penstock"), plugin: filepath.Join(dir, "count.so")}
	compile := exec.Command("go", "build", "-trimpath", "-o", b.program, ".")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	return b, runWithErrorOutput(compile)
}

func buildEdge(dir string) (*buildOutput, error) {
	b, err := buildProgram(dir)
	if err != nil {
		return nil, err
	}
	if err := runWithErrorOutput(exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", b.plugin, filepath.Join(".ci", "icount", "plugin", "count.c"), "-lpthread")); err != nil {
		return nil, err
	}
	symbols, err := exec.Command("go", "tool", "nm", "-n", b.program).Output()
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(symbols)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "t" && f[1] != "T" {
			continue
		}
		if address, err := strconv.ParseUint(f[0], 16, 64); err == nil {
			b.functions = append(b.functions, functionSymbol{address, strings.Join(f[2:], " ")})
		}
	}
	return b, nil
}

// runWithErrorOutput runs a command. If it fails, the error includes its output.
func runWithErrorOutput(c *exec.Cmd) error {
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", c.Path, err, out)
	}
	return nil
}

// countWorkload runs the edge twice: once in emulation, to count instructions, and once natively,
// to count system calls.
func (b *buildOutput) countWorkload(w *workload, top int) (rowCounts, error) {
	c := rowCounts{}
	out := filepath.Join(b.dir, "blocks")
	err := b.withEdge(w, []string{"qemu-x86_64", "-cpu", "max", "-plugin", b.plugin + ",out=" + out}, func(e *edge) error {
		if _, err := e.sendRequests(w, max(60, w.requests/4)); err != nil {
			return err
		}
		before, err := dumpBlocks(out, 0)
		if err != nil {
			return err
		}
		n, err := e.sendRequests(w, w.requests)
		if err != nil {
			return err
		}
		after, err := dumpBlocks(out, 1)
		if err != nil {
			return err
		}
		c.Instructions, c.Different = b.sumInstructions(before, after, float64(n), top)
		return nil
	})
	if err != nil {
		return c, err
	}
	w = w.systemCallWorkload()
	err = b.withEdge(w, nil, func(e *edge) error {
		if _, err := e.sendRequests(w, max(60, w.requests/4)); err != nil {
			return err
		}
		c.SystemCalls, c.Again, err = e.countSystemCalls(w, filepath.Join(b.dir, "calls"))
		return err
	})
	return c, err
}

type edge struct {
	process        *exec.Cmd
	address, admin string
}

// withEdge runs the edge in front of the workload's engines. If wrapper is not empty, the wrapper
// runs the edge.
func (b *buildOutput) withEdge(w *workload, wrapper []string, use func(*edge) error) error {
	var upstreams, deployments strings.Builder
	for i := range w.targets {
		l, err := startEngine(w)
		if err != nil {
			return err
		}
		defer l.Close()
		fmt.Fprintf(&upstreams, "  - { name: e%d, url: \"http://%s\", engine: openai, concurrency: 20000, probe: { interval: 60s } }\n", i, l.Addr())
		fmt.Fprintf(&deployments, "{ upstream: e%d }, ", i)
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	admin, err := freeAddress()
	if err != nil {
		return err
	}
	config := filepath.Join(b.dir, "edge.yaml")
	text := fmt.Sprintf(`listen: %s
admin: { listen: %s }
log: { access: false }
watch: false
keys:
  - { id: k, hash: "sha256:%x", limits: { requests_per_minute: 100000000, tokens_per_minute: 100000000000, concurrency: 20000 } }
upstreams:
%smodels:
  - { id: m, deployments: [%s] }
`, address, admin, sha256.Sum256([]byte(edgeKey)), &upstreams, &deployments)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	words := append(slices.Clone(wrapper), b.program, "serve", "--config", config)
	e := &edge{process: exec.Command(words[0], words[1:]...), address: address, admin: admin}
	var log bytes.Buffer
	e.process.Stdout, e.process.Stderr = &log, &log
	// The goals were measured with the edge on one core. With more, the number of events per wake-up
	// and the work of idle threads depend on the machine. Preemption signals depend on the timing.
	e.process.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	if err := e.process.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- e.process.Wait() }()
	defer func() {
		_ = e.process.Process.Kill()
		<-ended
	}()
	first := *w
	first.stream = false
	for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if _, err := e.sendRequests(&first, 1); err == nil {
			break
		}
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the edge ended: %w\n%s", err, &log)
		default:
		}
		if time.Since(begun) > 2*time.Minute {
			return fmt.Errorf("the edge answers no request after two minutes\n%s", &log)
		}
	}
	return use(e)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// dumpBlocks makes the plugin write file number n. It then reads from the file how many
// instructions were executed at each address.
func dumpBlocks(out string, n int) (map[uint64]blockCount, error) {
	if n == 0 {
		_ = os.Remove(out + ".0")
		_ = os.Remove(out + ".1")
	}
	if err := os.WriteFile(out+".go", nil, 0o600); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s.%d", out, n)
	var f *os.File
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if f, err = os.Open(name); err == nil {
			break
		}
		if time.Since(begun) > time.Minute {
			return nil, errors.New("the plugin writes no counts")
		}
	}
	defer f.Close()
	all := map[uint64]blockCount{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var address, length, executions, end uint64
		if _, err := fmt.Sscanf(s.Text(), "%x %d %d %x", &address, &length, &executions, &end); err != nil {
			return nil, err
		}
		b := all[address] // a block that was translated more than once has more than one line
		all[address] = blockCount{max(b.length, length), b.executed + length*executions, max(b.end, end)}
	}
	return all, nil
}

// blockCount describes the block of code from an address to the next jump. length is the number of
// its instructions, and end is the address of the last one. executed is length multiplied by the
// number of executions.
type blockCount struct{ length, executed, end uint64 }

// sumInstructions returns how many instructions were executed between two dumps, per unit. If top
// is not 0, it also prints the functions and packages that executed them.
func (b *buildOutput) sumInstructions(before, after map[uint64]blockCount, n float64, top int) (instructions, different float64) {
	t := newCostTable()
	for address, is := range after {
		is.executed -= before[address].executed
		if is.executed > 0 {
			t.addBlock(b.functionAt(address), address, is, n)
		}
	}
	if top > 0 {
		t.print(os.Stdout, top)
	}
	return t.all.instructions, t.all.different
}

func (b *buildOutput) functionAt(address uint64) functionSymbol {
	i, exact := slices.BinarySearchFunc(b.functions, address, func(f functionSymbol, a uint64) int {
		switch {
		case f.address < a:
			return -1
		case f.address > a:
			return 1
		}
		return 0
	})
	if !exact {
		i--
	}
	if i < 0 {
		return functionSymbol{name: "?"}
	}
	return b.functions[i]
}

// countSystemCalls attaches strace to the running edge and counts system calls. It does not count
// those that only wait.
func (e *edge) countSystemCalls(w *workload, out string) (calls, again float64, err error) {
	trace := exec.Command("strace", "-f", "-c", "-U", "name,calls,errors", "-o", out, "-p", strconv.Itoa(e.process.Process.Pid))
	var words lockedBuffer
	trace.Stderr = &words
	if err := trace.Start(); err != nil {
		return 0, 0, err
	}
	for begun := time.Now(); !strings.Contains(words.String(), "attached"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			_ = trace.Process.Kill()
			return 0, 0, fmt.Errorf("strace cannot attach (is ptrace allowed?): %s", words.String())
		}
	}
	n, err := e.sendRequests(w, w.requests)
	_ = trace.Process.Signal(syscall.SIGINT)
	_ = trace.Wait() // always returns an error, because the signal killed the process
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return 0, 0, err
	}
	writes := 0.0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "total" {
			continue
		}
		number, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "nanosleep", "clock_nanosleep", "restart_syscall", "futex":
			continue
		}
		calls += number
		if f[0] == "sendto" {
			writes = number
		}
		if len(f) > 2 && (f[0] == "read" || f[0] == "recvfrom" || f[0] == "recvmsg" || f[0] == "write" || f[0] == "writev") {
			missed, _ := strconv.ParseFloat(f[2], 64)
			again += missed
		}
	}
	if calls == 0 || writes == 0 {
		return 0, 0, fmt.Errorf("strace counted nothing: %s", words.String())
	}
	units := float64(n)
	if w.perToken {
		units = writes // a busy machine may write two tokens at once
	}
	return calls / units, again / units, nil
}
