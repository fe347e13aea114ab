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
	sessionsPerTrace    = 72      // number of sessions in a trace
	concurrentSessions  = 64      // number of sessions in progress at any time
	minSessionCalls     = 8       // calls of a session, not counting its sub-agents
	maxPromptTokens     = 250_000 // tokens in the longest prompt of a session
	maxPauseSeconds     = 300.0   // longest pause between two calls of a session
	traceSeconds        = 1800.0  // duration of a trace
	startWindowSeconds  = 60.0    // time within which the sessions at the start begin
	recordedBlockTokens = 64      // tokens in a recorded block
)

// agentRecording is a session or a sub-agent in the format of kv-cache-tester.
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
	T      float64 `json:"t"` // in seconds, since the session's start
	Input  int     `json:"in"`
	Output int     `json:"out"`
	Hashes []int   `json:"hash_ids"`
	API    float64 `json:"api_time"`   // duration of the call in seconds
	Think  float64 `json:"think_time"` // in seconds, before the call
}

// writeAgentTraces writes the traces agents, odd, later and sessions. The last contains the same
// sessions as agents.
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
		saveSortedTrace(out, "agents", scheduleSessions(even)),
		saveSortedTrace(out, "odd", scheduleSessions(odd)),
		saveSortedTrace(out, "later", scheduleSessions(later)),
		writeJSONLines(out, "sessions", lines))
}

// selectRecordings reads the recordings with the numbers first, first+every, first+2*every and so
// on. It returns the first sessionsPerTrace recordings that have enough calls and no prompt that is
// too long. It skips numbers without a file.
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

// sessionCall is a line of the trace "sessions".
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

// sessionTrace returns the calls of all sessions. Each call contains the length of the prefix that
// it shares with the previous call of its session.
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

// scheduleSessions schedules sessions so that concurrentSessions of them are always in progress.
// The sessions at the start begin at a random call in their first half. When a session ends, the
// next one in the list starts. After the last one, the list starts again.
func scheduleSessions(all []agentRecording) []traceLine {
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
	known map[string]int // maps a prompt up to and including a block to the number of that block
	fresh blockIDAllocator
}

// addSession adds the calls of a session, starting with call number from at time at. It returns
// when the session ends.
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

// promptBlockIDs numbers the blocks of a prompt. The blocks of the system prompt are the same in
// all sessions.
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
