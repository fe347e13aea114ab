package main

import (
	"cmp"
	"slices"
	"time"
)

// call is a client's record of a call. Times are relative to the start of the run.
type call struct {
	edge        int
	sent, ended time.Duration
	status      int    // 0 if there was no answer
	upstream    string // the engine that answered
}

func admitted(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.status != 200 })
}

// before returns the calls that ended at or before end.
func before(calls []call, end time.Duration) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.ended > end })
}

// since returns the calls that ended at or after begin.
func since(calls []call, begin time.Duration) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.ended < begin })
}

func bySending(calls []call) []call {
	return slices.SortedFunc(slices.Values(calls), func(a, b call) int { return cmp.Compare(a.sent, b.sent) })
}

// excessCalls returns the largest number of calls by which the calls in any span certainly exceeded
// a limit per minute. The limit admits a burst of a minute's calls, and refills over time.
func excessCalls(calls []call, limit int) float64 {
	list := bySending(admitted(calls))
	ends := slices.Clone(list)
	slices.SortFunc(ends, func(a, b call) int { return cmp.Compare(a.ended, b.ended) })
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

// admittedByOneEdge returns how many of the calls a single edge with the whole limit would admit.
func admittedByOneEdge(calls []call, limit int) (n int) {
	owed, at := 0.0, time.Duration(0)
	for _, c := range bySending(calls) {
		owed = max(0, owed-(c.sent-at).Minutes()*float64(limit))
		if at = c.sent; owed+1 <= float64(limit) {
			owed++
			n++
		}
	}
	return n
}

// admittedByParts returns how many of the calls the given number of edges would admit if each edge
// had an equal part of the limit.
func admittedByParts(calls []call, limit, edges int) (n int) {
	for edge := range edges {
		own := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.edge != edge })
		n += admittedByOneEdge(own, limit/edges)
	}
	return n
}

// admittedBySlots returns how many of the calls a single edge would admit if each call occupied one of
// the slots for the duration held.
func admittedBySlots(calls []call, slots int, held time.Duration) (n int) {
	var ends []time.Duration // in ascending order, because all calls take equally long
	for _, c := range bySending(calls) {
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

func refused(calls []call) (n int) {
	for _, c := range calls {
		if c.status == 429 {
			n++
		}
	}
	return n
}

// failed returns how many calls were neither answered nor refused because of a limit.
func failed(calls []call) (n int) {
	for _, c := range calls {
		if c.status != 200 && c.status != 429 {
			n++
		}
	}
	return n
}
