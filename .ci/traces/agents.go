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
	sessionsPerTrace    = 72      // of a trace
	concurrentSessions  = 64      // sessions at once
	minSessionCalls     = 8       // of a session without its sub-agents
	maxPromptTokens     = 250_000 // tokens
	maxPauseSeconds     = 300.0   // s
	traceSeconds        = 1800.0  // s
	startWindowSeconds  = 60.0    // s
	recordedBlockTokens = 64      // of a recorded block
)

// agentRecording is a session, or a sub-agent, as kv-cache-tester has it.
type agentRecording struct {
	ID       string         `json:"id"`
	Tools    int            `json:"tool_tokens"`
	System   int            `json:"system_tokens"`
	Requests []recordedCall `json:"requests"`
}

// recordedCall is a call, or a sub-agent with calls of its own.
type recordedCall struct {
	agentRecording

	Type   string  `json:"type"`
	T      float64 `json:"t"` // s since the session's start
	Input  int     `json:"in"`
	Output int     `json:"out"`
	Hashes []int   `json:"hash_ids"`
	API    float64 `json:"api_time"`   // s
	Think  float64 `json:"think_time"` // s, before the call
}

// writeAgentTraces writes agents, odd and later, and agents once more as sessions.
func writeAgentTraces(dir, out string) error {
	even, err := selectRecordings(dir, 2, 2)
	odd, err1 := selectRecordings(dir, 1, 2)
	later, err2 := selectRecordings(dir, 300, 2)
	if err := errors.Join(err, err1, err2); err != nil {
		return err
	}
	lines := sessionTrace(even)
	fmt.Printf("sessions: %d calls\n", len(lines))
	return errors.Join(
		saveSortedTrace(out, "agents", arrangeInTime(even)),
		saveSortedTrace(out, "odd", arrangeInTime(odd)),
		saveSortedTrace(out, "later", arrangeInTime(later)),
		writeJSONLines(out, "sessions", lines))
}

// selectRecordings reads the first sessions of every so many numbers that have enough calls and no prompt that
// is too long. A number without a file is skipped.
func selectRecordings(dir string, first, every int) ([]agentRecording, error) {
	var chosen []agentRecording
	for n := first; len(chosen) < sessionsPerTrace; n += every {
		if n > 9999 {
			return nil, fmt.Errorf("%s has only %d sessions from trace_%04d.json on", dir, len(chosen), first)
		}
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("trace_%04d.json", n)))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		var r agentRecording
		if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
			return nil, err
		}
		if r.fitsPromptLimit() {
			chosen = append(chosen, r)
		}
	}
	return chosen, nil
}

func (r agentRecording) fitsPromptLimit() bool {
	calls := 0
	for _, c := range r.Requests {
		if c.Input > maxPromptTokens || c.Type == "subagent" && !c.hasOnlyShortPrompts() {
			return false
		}
		if c.Type != "subagent" {
			calls++
		}
	}
	return calls >= minSessionCalls
}

func (r agentRecording) hasOnlyShortPrompts() bool {
	for _, c := range r.Requests {
		if c.Input > maxPromptTokens {
			return false
		}
	}
	return true
}

// sessionCall is a call of a trace of sessions.
type sessionCall struct {
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

// sessionTrace returns the calls of all sessions, each with what it has in common with the call before.
func sessionTrace(all []agentRecording) []sessionCall {
	var turns []sessionCall
	for _, r := range all {
		turns = append(turns, r.sessionCalls(r.ID, 0)...)
	}
	return turns
}

func (r agentRecording) sessionCalls(session string, start float64) []sessionCall {
	var turns, others []sessionCall
	var before []int
	agents := 0
	for _, c := range r.Requests {
		if c.Type == "subagent" {
			agents++
			others = append(others, c.sessionCalls(fmt.Sprintf("%s/%d", session, agents), c.T)...)
			continue
		}
		t := sessionCall{session, len(turns), start + c.T, c.API, c.Think, c.Input, c.Output, len(turns) - 1, commonPrefixLength(before, c.Hashes), 0}
		if t.Number == 0 {
			t.System = r.Tools + r.System
		}
		before = c.Hashes
		turns = append(turns, t)
	}
	return append(turns, others...)
}

func commonPrefixLength(a, b []int) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// arrangeInTime arranges sessions in time: so many at once, the first ones from a random point in their
// first half on. A session that ends is followed by the next one, after the last one by the first.
func arrangeInTime(all []agentRecording) []traceLine {
	random := rand.New(rand.NewPCG(1, 1))
	a := traceBuilder{known: map[string]int{}}
	ends, next := make([]float64, concurrentSessions), concurrentSessions
	for i := range ends {
		r := all[i]
		ends[i] = a.addSession(r, r.ID, random.Float64()*startWindowSeconds, random.IntN(len(r.Requests)/2))
	}
	for {
		first := 0
		for i := range ends {
			if ends[i] < ends[first] {
				first = i
			}
		}
		if ends[first] >= traceSeconds {
			return a.lines
		}
		r := all[next%len(all)]
		ends[first] = a.addSession(r, fmt.Sprintf("%s-%d", r.ID, next/len(all)), ends[first], 0)
		next++
	}
}

type traceBuilder struct {
	lines []traceLine
	known map[string]int // prompts that end with a block, and the number of that block
	fresh blockIDs
}

// addSession adds the calls of a session from a call on, and returns when the session ends.
func (a *traceBuilder) addSession(r agentRecording, session string, at float64, from int) float64 {
	agents := 0
	for i, c := range r.Requests {
		if c.Type == "subagent" {
			agents++
			if i >= from {
				a.addSession(c.agentRecording, fmt.Sprintf("%s/%d", session, agents), at, 0)
			}
			continue
		}
		if i < from {
			continue
		}
		if i > from {
			at += min(c.Think, maxPauseSeconds)
		}
		if at >= traceSeconds {
			return at
		}
		a.lines = append(a.lines, traceLine{int(at * 1000), c.Input, c.Output, a.promptBlockIDs(session, c, r.Tools+r.System), session})
		at += c.API
	}
	return at
}

// promptBlockIDs numbers the blocks of a prompt. The blocks of the system prompt are the same in all sessions.
func (a *traceBuilder) promptBlockIDs(session string, c recordedCall, system int) []int {
	root, path := strings.SplitN(session, "/", 2)[0], strings.Builder{}
	blocks := make([]int, c.Input/traceBlockTokens)
	for k := range blocks {
		key := fmt.Sprintf("system %d", k)
		if (k+1)*traceBlockTokens > system {
			fmt.Fprint(&path, c.Hashes[min(k*traceBlockTokens/recordedBlockTokens, len(c.Hashes)):min((k+1)*traceBlockTokens/recordedBlockTokens, len(c.Hashes))])
			key = root + path.String()
		}
		id, ok := a.known[key]
		if !ok {
			id = a.fresh.allocate(1)[0]
			a.known[key] = id
		}
		blocks[k] = id
	}
	return blocks
}
