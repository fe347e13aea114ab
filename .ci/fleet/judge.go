package main

import (
	"cmp"
	"slices"
	"time"
)

// call is a client's record of one call, with times on the run's clock.
type call struct {
	edge        int
	sent, ended time.Duration
	status      int    // 0: there was no answer
	upstream    string // the engine that answered
}

// admitted returns the calls that were admitted.
func admitted(calls []call) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.status != 200 })
}

// before returns the calls that had ended by the time end.
func before(calls []call, end time.Duration) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.ended > end })
}

// since returns the calls that have ended since begin.
func since(calls []call, begin time.Duration) []call {
	return slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.ended < begin })
}

// bySending returns the calls in the order in which they were sent.
func bySending(calls []call) []call {
	return slices.SortedFunc(slices.Values(calls), func(a, b call) int { return cmp.Compare(a.sent, b.sent) })
}

// over returns by how many calls, at least, some span exceeded a limit per minute. The limit allows
// a minute's worth at once, and the refill over time. It returns 0 if no call is certain to exceed
// the limit.
func over(calls []call, limit int) float64 {
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

// one returns how many of the calls a single edge with a limit per minute admits.
func one(calls []call, limit int) (n int) {
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

// divided returns how many of the calls several edges admit if each has an equal part of the limit.
func divided(calls []call, limit, edges int) (n int) {
	for edge := range edges {
		own := slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.edge != edge })
		n += one(own, limit/edges)
	}
	return n
}

// oneWithSlots returns how many of the calls a single edge admits if it has the given number of
// slots and each call holds a slot for the given time.
func oneWithSlots(calls []call, slots int, held time.Duration) (n int) {
	var ends []time.Duration // in order, because each call takes equally long
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

// refused counts the calls that were refused because of a limit.
func refused(calls []call) (n int) {
	for _, c := range calls {
		if c.status == 429 {
			n++
		}
	}
	return n
}

// failed counts the calls that were neither answered nor refused because of a limit.
func failed(calls []call) (n int) {
	for _, c := range calls {
		if c.status != 200 && c.status != 429 {
			n++
		}
	}
	return n
}
