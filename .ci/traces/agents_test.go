package main

import (
	"slices"
	"testing"
)

// recordedSession has a first prompt of 2048 tokens (1024 of them the system prompt), a second
// prompt that continues the first, a prompt of a sub-agent, and a third prompt after the history
// was cut.
func recordedSession() agentRecording {
	hashes := make([]int, 48)
	for i := range hashes {
		hashes[i] = i + 1
	}
	other := slices.Concat(hashes[:16], []int{101, 102, 103, 104, 105, 106, 107, 108})
	agent := recordedCall{Type: "subagent"}
	agent.Requests = []recordedCall{{Input: 512, Output: 1, Hashes: []int{91, 92, 93, 94, 95, 96, 97, 98}, API: 1}}
	return agentRecording{ID: "x", Tools: 1000, System: 24, Requests: []recordedCall{
		{Input: 2048, Output: 10, Hashes: hashes[:32], API: 5},
		{T: 6, Input: 3072, Output: 10, Hashes: hashes, API: 5, Think: 2},
		agent,
		{T: 2000, Input: 1536, Output: 10, Hashes: other, API: 5, Think: 1000},
	}}
}

// TestArrangeInTime checks times, sessions and blocks of a session that is played twice.
func TestArrangeInTime(t *testing.T) {
	a := traceBuilder{known: map[string]int{}}
	if end := a.addSession(recordedSession(), "x", 1, 0); end != 1+5+2+5+300+5 {
		t.Errorf("the session ends at %v", end)
	}
	if end := a.addSession(recordedSession(), "x-1", 1700, 1); end < traceSeconds {
		t.Errorf("the session that is cut off ends at %v", end)
	}
	want := []traceLine{
		{1000, 2048, 10, []int{1, 2, 3, 4}, "x"},
		{8000, 3072, 10, []int{1, 2, 3, 4, 5, 6}, "x"},
		{13000, 512, 1, []int{7}, "x/1"},
		{313000, 1536, 10, []int{1, 2, 8}, "x"},
		{1700000, 3072, 10, []int{1, 2, 9, 10, 11, 12}, "x-1"},
		{1705000, 512, 1, []int{13}, "x-1/1"},
	}
	if !slices.EqualFunc(a.lines, want, func(a, b traceLine) bool {
		return a.Timestamp == b.Timestamp && a.Input == b.Input && a.Output == b.Output && a.Session == b.Session && slices.Equal(a.Blocks, b.Blocks)
	}) {
		t.Errorf("got %v, want %v", a.lines, want)
	}
}

// TestSessionTrace checks what each call of a session has in common with the one before.
func TestSessionTrace(t *testing.T) {
	want := []sessionCall{
		{"x", 0, 0, 5, 0, 2048, 10, -1, 0, 1024},
		{"x", 1, 6, 5, 2, 3072, 10, 0, 32, 0},
		{"x", 2, 2000, 5, 1000, 1536, 10, 1, 16, 0},
		{"x/1", 0, 0, 1, 0, 512, 1, -1, 0, 0},
	}
	if got := sessionTrace([]agentRecording{recordedSession()}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
