package plan

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock/bench/load/workload"
	"penstock/bench/sim"
	"penstock/bench/sim/scheduler"
)

// testTrace creates a trace of conversations that share a prefix and have more than one turn.
func testTrace(seed uint64, n int, rate float64) []workload.TraceCall {
	rng := rand.New(rand.NewPCG(seed, 7))
	var out []workload.TraceCall
	next, at := int64(1), 0.0
	var open [][]int64
	for range n {
		at += rng.ExpFloat64() / rate
		blocks := []int64{0}
		if len(open) > 0 && rng.IntN(2) == 0 {
			blocks = slices.Clone(open[rng.IntN(len(open))])
		}
		for range 1 + rng.IntN(3) {
			blocks = append(blocks, next)
			next++
		}
		open = append(open, blocks)
		out = append(out, workload.TraceCall{
			After: -1, At: time.Duration(at * float64(time.Second)), In: len(blocks)*traceBlock + scheduler.MessageTokens,
			Out: 1 + int(rng.ExpFloat64()*120), Blocks: blocks,
		})
	}
	return out
}

// bodyOf returns a chat request for a line of a trace. Equal blocks become equal text. The
// simulator counts four bytes as one token.
func bodyOf(c *workload.TraceCall) string {
	var text strings.Builder
	for _, b := range c.Blocks {
		word := fmt.Sprintf("%08d", b)
		text.WriteString(strings.Repeat(word, traceBlock*bytesPerToken/len(word)))
	}
	const role = "user\n" // the simulator also counts these bytes
	return fmt.Sprintf(`{"model":"sim","stream":true,"max_tokens":%d,"sim":{"tokens":%d},"messages":[{"role":"user","content":%q}]}`,
		c.Out, c.Out, text.String()[len(role):])
}

// played contains, for each call, the time of its first token and the time when it ended, in
// seconds since the call arrived.
type played struct {
	first, end []float64
	preempted  int64 // number of preemptions at the simulator
}

// playReal plays a trace on the simulator, with the clock of a synctest bubble.
func playReal(t *testing.T, o sim.Options, trace []workload.TraceCall) played {
	p := played{first: make([]float64, len(trace)), end: make([]float64, len(trace))}
	synctest.Test(t, func(t *testing.T) {
		e := sim.New(o)
		defer e.Close()
		begin := time.Now()
		var all sync.WaitGroup
		for i := range trace {
			all.Go(func() {
				c := &trace[i]
				time.Sleep(c.At - time.Since(begin))
				ours, theirs := net.Pipe()
				e.ServeConn(theirs)
				defer ours.Close()
				body := bodyOf(c)
				if _, err := fmt.Fprintf(ours, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(bufio.NewReader(ours), nil)
				if err != nil || resp.StatusCode != 200 {
					t.Errorf("answer = %v, %v; want status 200", resp, err)
					return
				}
				buf := make([]byte, 1<<20)
				for first := true; ; {
					n, err := resp.Body.Read(buf)
					if n > 0 && first && bytes.Contains(buf[:n], []byte(`"delta"`)) {
						p.first[i], first = (time.Since(begin) - c.At).Seconds(), false
					}
					if err == io.EOF {
						break
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
				p.end[i] = (time.Since(begin) - c.At).Seconds()
			})
		}
		all.Wait()
		p.preempted = e.Stats().Preempted
	})
	return p
}

// playVirtual plays a trace in the plan's virtual time.
func playVirtual(t *testing.T, o sim.Options, trace []workload.TraceCall) (p played) {
	t.Helper()
	f, err := newFleet([]*EngineKind{{Name: "k", o: o}}, "least_loaded", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.playRequests(newRequests(trace, 1), 1) {
		p.first, p.end = append(p.first, c.firstTokenAt-c.at), append(p.end, c.end-c.at)
	}
	return p
}

// TestEngineIsTheSimulator checks that the virtual engine and the simulator respond at the same
// times to the same traces.
func TestEngineIsTheSimulator(t *testing.T) {
	base := sim.Options{PrefillRate: 8000, SharedPrefill: true, TokenRate: 50, BatchCost: time.Millisecond, Latency: 20 * time.Millisecond, Slots: 16, KVTokens: 100_000, CacheTokens: 100_000}
	for name, c := range map[string]struct {
		change  func(*sim.Options)
		rate    float64
		evicted bool
	}{
		"calm":            {func(*sim.Options) {}, 1, false},
		"busy":            {func(*sim.Options) {}, 6, false},
		"few slots":       {func(o *sim.Options) { o.Slots = 4 }, 4, false},
		"little room":     {func(o *sim.Options) { o.KVTokens, o.CacheTokens = 12_000, 12_000 }, 4, true},
		"prompts in line": {func(o *sim.Options) { o.PrefillRate = 2500 }, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := base
			c.change(&o)
			trace := testTrace(3, 80, c.rate)
			want := playReal(t, o, trace)
			got := playVirtual(t, o, trace)
			if (want.preempted > 0) != c.evicted {
				t.Errorf("the simulator has evicted %d times", want.preempted)
			}
			for i := range trace {
				// If two requests arrive at the same moment, either may be preempted.
				if !c.evicted && (math.Abs(got.first[i]-want.first[i]) > 0.01*want.first[i] || math.Abs(got.end[i]-want.end[i]) > 0.01*want.end[i]) {
					t.Errorf("call %d: first token after %.3f s, end %.3f; the simulator's %.3f, %.3f", i, got.first[i], got.end[i], want.first[i], want.end[i])
				}
			}
			for _, pair := range [][2][]float64{{got.first, want.first}, {got.end, want.end}} {
				slices.Sort(pair[0])
				slices.Sort(pair[1])
				for _, q := range []int{50, 90, 99} {
					at := (q*len(trace)+99)/100 - 1
					if a, b := pair[0][at], pair[1][at]; math.Abs(a-b) > 0.02+0.05*b {
						t.Errorf("p%d %.3f s, the simulator's %.3f", q, a, b)
					}
				}
			}
		})
	}
}
