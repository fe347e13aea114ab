package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

const (
	sessions   = 72      // of a trace
	together   = 64      // sessions at once
	minCalls   = 8       // of a session without its sub-agents
	maxPrompt  = 250_000 // tokens
	maxPause   = 300.0   // s
	span       = 1800.0  // s
	startsIn   = 60.0    // s
	hashTokens = 64      // of a recorded block
)

// recording is a session, or a sub-agent, as kv-cache-tester has it.
type recording struct {
	ID       string     `json:"id"`
	Tools    int        `json:"tool_tokens"`
	System   int        `json:"system_tokens"`
	Requests []recorded `json:"requests"`
}

// recorded is a call, or a sub-agent with calls of its own.
type recorded struct {
	recording

	Type   string  `json:"type"`
	T      float64 `json:"t"` // s since the session's start
	Input  int     `json:"in"`
	Output int     `json:"out"`
	Hashes []int   `json:"hash_ids"`
	API    float64 `json:"api_time"`   // s
	Think  float64 `json:"think_time"` // s, before the call
}

// recordings writes agents, odd and later, and agents once more as sessions.
func recordings(dir, out string) error {
	even, err := choose(dir, 2, 2)
	odd, err1 := choose(dir, 1, 2)
	later, err2 := choose(dir, 300, 2)
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}
	lines := asSessions(even)
	fmt.Printf("sessions: %d calls\n", len(lines))
	return errors.Join(
		save(out, "agents", inTime(even)),
		save(out, "odd", inTime(odd)),
		save(out, "later", inTime(later)),
		write(out, "sessions", lines))
}

// choose reads the first sessions of every so many numbers that have enough calls and no prompt that
// is too long. A number without a file is skipped.
func choose(dir string, first, every int) ([]recording, error) {
	var chosen []recording
	for n := first; len(chosen) < sessions; n += every {
		if n > 9999 {
			return nil, fmt.Errorf("%s has only %d sessions from trace_%04d.json on", dir, len(chosen), first)
		}
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("trace_%04d.json", n)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r recording
		if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
			return nil, err
		}
		if r.fits() {
			chosen = append(chosen, r)
		}
	}
	return chosen, nil
}

func (r recording) fits() bool {
	calls := 0
	for _, c := range r.Requests {
		if c.Input > maxPrompt || c.Type == "subagent" && !c.short() {
			return false
		}
		if c.Type != "subagent" {
			calls++
		}
	}
	return calls >= minCalls
}

func (r recording) short() bool {
	for _, c := range r.Requests {
		if c.Input > maxPrompt {
			return false
		}
	}
	return true
}

// turn is a call of a trace of sessions.
type turn struct {
	Session string  `json:"s"`
	Number  int     `json:"i"`
	T       float64 `json:"t"`
	API     float64 `json:"api"`
	Think   float64 `json:"think"`
	Input   int     `json:"in"`
	Output  int     `json:"out"`
	From    int     `json:"from"`
	Keep    int     `json:"keep"`
	System  int     `json:"sys,omitempty"`
}

// asSessions returns the calls of all sessions, each with what it has in common with the call before.
func asSessions(all []recording) []turn {
	var turns []turn
	for _, r := range all {
		turns = append(turns, r.turns(r.ID, 0)...)
	}
	return turns
}

func (r recording) turns(session string, start float64) []turn {
	var turns, others []turn
	var before []int
	agents := 0
	for _, c := range r.Requests {
		if c.Type == "subagent" {
			agents++
			others = append(others, c.turns(fmt.Sprintf("%s/%d", session, agents), c.T)...)
			continue
		}
		t := turn{session, len(turns), start + c.T, c.API, c.Think, c.Input, c.Output, len(turns) - 1, common(before, c.Hashes), 0}
		if t.Number == 0 {
			t.System = r.Tools + r.System
		}
		before = c.Hashes
		turns = append(turns, t)
	}
	return append(turns, others...)
}

func common(a, b []int) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// inTime arranges sessions in time: so many at once, the first ones from a random point in their
// first half on. A session that ends is followed by the next one, after the last one by the first.
func inTime(all []recording) []line {
	random := rand.New(rand.NewPCG(1, 1))
	a := arrangement{known: map[string]int{}}
	ends, next := make([]float64, together), together
	for i := range ends {
		r := all[i]
		ends[i] = a.play(r, r.ID, random.Float64()*startsIn, random.IntN(len(r.Requests)/2))
	}
	for {
		first := 0
		for i := range ends {
			if ends[i] < ends[first] {
				first = i
			}
		}
		if ends[first] >= span {
			return a.lines
		}
		r := all[next%len(all)]
		ends[first] = a.play(r, fmt.Sprintf("%s-%d", r.ID, next/len(all)), ends[first], 0)
		next++
	}
}

type arrangement struct {
	lines []line
	known map[string]int // prompts that end with a block, and the number of that block
	fresh ids
}

// play adds the calls of a session from a call on, and returns when the session ends.
func (a *arrangement) play(r recording, session string, at float64, from int) float64 {
	agents := 0
	for i, c := range r.Requests {
		if c.Type == "subagent" {
			agents++
			if i >= from {
				a.play(c.recording, fmt.Sprintf("%s/%d", session, agents), at, 0)
			}
			continue
		}
		if i < from {
			continue
		}
		if i > from {
			at += min(c.Think, maxPause)
		}
		if at >= span {
			return at
		}
		a.lines = append(a.lines, line{int(at * 1000), c.Input, c.Output, a.blocks(session, c, r.Tools+r.System), session})
		at += c.API
	}
	return at
}

// blocks numbers the blocks of a prompt. The blocks of the system prompt are the same in all sessions.
func (a *arrangement) blocks(session string, c recorded, system int) []int {
	root, path := strings.SplitN(session, "/", 2)[0], strings.Builder{}
	blocks := make([]int, c.Input/blockTokens)
	for k := range blocks {
		key := fmt.Sprintf("system %d", k)
		if (k+1)*blockTokens > system {
			fmt.Fprint(&path, c.Hashes[min(k*blockTokens/hashTokens, len(c.Hashes)):min((k+1)*blockTokens/hashTokens, len(c.Hashes))])
			key = root + path.String()
		}
		id, ok := a.known[key]
		if !ok {
			id = a.fresh.next(1)[0]
			a.known[key] = id
		}
		blocks[k] = id
	}
	return blocks
}
