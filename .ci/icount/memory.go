package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryRow is a row of the memory table. Each of its connections either is idle after a call, or
// has an open stream.
type memoryRow struct {
	name   string
	held   int
	settle time.Duration // how long the edge may take to release what the connections no longer need
	// maxStack is the most KiB of stack that a connection may need. The collector halves a stack
	// only if less than a quarter of it is used, so a few bytes more in one frame of a waiting
	// stream can double the stack of every stream.
	maxStack float64
	workload
}

var memoryRows = []memoryRow{
	{"idle connection", 2000, 22 * time.Second, 0.5, workload{size: 1024, clients: 1, targets: 1}},
	{"held stream", 3000, 3 * time.Second, 4.5, workload{size: 1024, stream: true, tokens: 1 << 20, gap: time.Second, clients: 1, targets: 1}},
}

// memoryUse is the memory of the edge in bytes.
type memoryUse struct{ resident, stacks, heap, goroutines, collections float64 }

// frequentGCEnv makes the edge's collector run after little allocation, which makes the numbers
// comparable.
const frequentGCEnv = "GOGC=50"

// runMemory prints how much memory the edge needs for each held connection. It reads the memory
// after collections, so the garbage of the calls does not count. If row is not empty, it measures
// only that row. profiles is the directory for heap and goroutine profiles of the rows; if it is
// empty, they are not written.
func runMemory(row, profiles string) error {
	dir, err := os.MkdirTemp("", "icount")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := buildProgram(dir)
	if err != nil {
		return err
	}
	fmt.Printf("%-22s %10s %10s %10s %12s\n", "KiB per connection", "resident", "stacks", "heap", "goroutines")
	for i := range memoryRows {
		w := &memoryRows[i]
		if row != "" && row != w.name {
			continue
		}
		err := b.withEdge(&w.workload, []string{"env", frequentGCEnv}, func(e *edge) error { return e.holdConnections(w, profiles) })
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (e *edge) holdConnections(w *memoryRow, dir string) error {
	churn := workload{size: 1024, clients: 4, targets: 1}
	before, err := e.measureSettledMemory(&churn, 0)
	if err != nil {
		return err
	}
	conns := make(chan net.Conn, w.held)
	defer func() {
		close(conns)
		for c := range conns {
			c.Close()
		}
	}()
	var dialers sync.WaitGroup
	failed := make(chan error, w.held)
	for range 16 {
		dialers.Go(func() {
			for range w.held / 16 {
				c, err := e.openHeldConnection(&w.workload)
				if err != nil {
					failed <- err
					return
				}
				conns <- c
			}
		})
	}
	dialers.Wait()
	select {
	case err := <-failed:
		return err
	default:
	}
	after, err := e.measureSettledMemory(&churn, w.settle)
	if err != nil {
		return err
	}
	n := float64(w.held / 16 * 16)
	each := func(was, is float64) float64 { return (is - was) / n / 1024 }
	stack := each(before.stacks, after.stacks)
	fmt.Printf("%-22s %10.2f %10.2f %10.2f %12.2f\n", w.name, each(before.resident, after.resident),
		stack, each(before.heap, after.heap), (after.goroutines-before.goroutines)/n)
	if err := e.writeMemoryProfiles(w, dir); err != nil {
		return err
	}
	if stack > w.maxStack {
		return fmt.Errorf("a connection needs %.2f KiB of stack, want at most %.2f", stack, w.maxStack)
	}
	return nil
}

// writeMemoryProfiles writes the profiles of a row to dir, or nothing if dir is empty.
func (e *edge) writeMemoryProfiles(w *memoryRow, dir string) error {
	if dir == "" {
		return nil
	}
	for _, name := range []string{"heap", "goroutines"} {
		text, err := e.adminPage(name)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, strings.ReplaceAll(w.name, " ", "-")+"."+name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// openHeldConnection opens a connection and sends a call. It returns after the answer, or after the
// first token of a stream.
func (e *edge) openHeldConnection(w *workload) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", e.address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err = c.Write(w.requestBytes(e.address))
	if err != nil {
		return c, err
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(c, 4<<10), nil)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", answer.StatusCode)
	}
	if err == nil && w.stream {
		_, err = answer.Body.Read(make([]byte, 1))
	} else if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return c, err
}

// measureSettledMemory waits for settle, sends calls until three more garbage collections have
// ended, and then reads the memory. It takes two collections to free the objects in a sync.Pool.
func (e *edge) measureSettledMemory(churn *workload, settle time.Duration) (memoryUse, error) {
	time.Sleep(settle)
	first, err := e.readMemory()
	for u := first; err == nil && u.collections < first.collections+3; u, err = e.readMemory() {
		if _, err = e.sendRequests(churn, 500); err != nil {
			return u, err
		}
	}
	if err != nil {
		return first, err
	}
	time.Sleep(3 * time.Second) // in this time, the Go runtime returns unused pages to the system
	return e.readMemory()
}

func (e *edge) readMemory() (u memoryUse, err error) {
	heap, err := e.adminPage("heap")
	if err != nil {
		return u, err
	}
	goroutines, err := e.adminPage("goroutines")
	if err != nil {
		return u, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.process.Process.Pid))
	if err != nil {
		return u, err
	}
	for _, f := range []struct {
		text   []byte
		prefix string
		unit   float64
		value  *float64
	}{
		{status, "VmRSS:", 1024, &u.resident},
		{heap, "# Stack =", 1, &u.stacks},
		{heap, "# HeapInuse =", 1, &u.heap},
		{heap, "# NumGC =", 1, &u.collections},
		{goroutines, "goroutine profile: total", 1, &u.goroutines},
	} {
		_, rest, _ := bytes.Cut(f.text, []byte(f.prefix))
		words := strings.Fields(string(rest[:min(len(rest), 100)]))
		if len(words) == 0 {
			return u, fmt.Errorf("%q is missing", f.prefix)
		}
		n, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return u, err
		}
		*f.value = n * f.unit
	}
	return u, nil
}

func (e *edge) adminPage(name string) ([]byte, error) {
	answer, err := http.Get("http://" + e.admin + "/-/" + name)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("/-/%s: status %d", name, answer.StatusCode)
	}
	return text, err
}
