package main

import (
	"cmp"
	"slices"
	"time"
)

// clientCall is a client's record of a call. Times are relative to the start of the run.
type clientCall struct {
	edge        int
	sent, ended time.Duration
	status      int    // 0 if there was no answer
	upstream    string // the engine that answered
}

func admittedCalls(calls []clientCall) []clientCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c clientCall) bool { return c.status != 200 })
}

// callsEndedBefore returns the calls that ended at or before end.
func callsEndedBefore(calls []clientCall, end time.Duration) []clientCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c clientCall) bool { return c.ended > end })
}

// callsEndedSince returns the calls that ended at or after begin.
func callsEndedSince(calls []clientCall, begin time.Duration) []clientCall {
	return slices.DeleteFunc(slices.Clone(calls), func(c clientCall) bool { return c.ended < begin })
}

func sortedBySendTime(calls []clientCall) []clientCall {
	return slices.SortedFunc(slices.Values(calls), func(a, b clientCall) int { return cmp.Compare(a.sent, b.sent) })
}

// maxCallsOverLimit returns the largest number of calls by which the calls in any span certainly
// exceeded a limit per minute. The limit admits a burst of a minute's calls, and refills over time.
func maxCallsOverLimit(calls []clientCall, limit int) float64 {
	list := sortedBySendTime(admittedCalls(calls))
	ends := slices.Clone(list)
	slices.SortFunc(ends, func(a, b clientCall) int { return cmp.Compare(a.ended, b.ended) })
	rate, most := float64(limit)/60, 0.0
	for i := range list {
		first, n := list[i].sent, 0
		for _, c := range ends {
			if c.sent < first {
				continue
			}
			n++
			most = max(most, float64(n-limit)-rate*(c.ended-first).Seconds())
		}
	}
	return most
}

// countAdmittedByOneEdge returns how many of the calls a single edge with the whole limit would
// admit.
func countAdmittedByOneEdge(calls []clientCall, limit int) (n int) {
	owed, at := 0.0, time.Duration(0)
	for _, c := range sortedBySendTime(calls) {
		owed = max(0, owed-(c.sent-at).Minutes()*float64(limit))
		if at = c.sent; owed+1 <= float64(limit) {
			owed++
			n++
		}
	}
	return n
}

// countAdmittedBySplitLimit returns how many of the calls the given number of edges would admit if
// each edge had an equal part of the limit.
func countAdmittedBySplitLimit(calls []clientCall, limit, edges int) (n int) {
	for edge := range edges {
		own := slices.DeleteFunc(slices.Clone(calls), func(c clientCall) bool { return c.edge != edge })
		n += countAdmittedByOneEdge(own, limit/edges)
	}
	return n
}

// countAdmittedBySlots returns how many of the calls a single edge would admit if each call
// occupied one of the slots for the duration held.
func countAdmittedBySlots(calls []clientCall, slots int, held time.Duration) (n int) {
	var ends []time.Duration // in ascending order, because all calls take equally long
	for _, c := range sortedBySendTime(calls) {
		for len(ends) > 0 && ends[0] <= c.sent {
			ends = ends[1:]
		}
		if len(ends) < slots {
			ends = append(ends, c.sent+held)
			n++
		}
	}
	return n
}

func countRefused(calls []clientCall) (n int) {
	for _, c := range calls {
		if c.status == 429 {
			n++
		}
	}
	return n
}

// countFailed returns how many calls were neither answered nor refused because of a limit.
func countFailed(calls []clientCall) (n int) {
	for _, c := range calls {
		if c.status != 200 && c.status != 429 {
			n++
		}
	}
	return n
}
