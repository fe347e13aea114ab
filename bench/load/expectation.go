package load

import (
	"slices"
	"strings"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/result"
)

// expectation is a kind of failure that a test expects, such as refusals under overload, or streams
// that are cut off by a crash. A matching failure is counted like any other failure, but does not
// make the result invalid.
type expectation struct {
	words []string // the failure's label must contain all of these words
	event bool     // applies only from the start of an event until recoveryTime after its end
}

// eventOnlySuffix is the suffix of an expectation that applies only during and after events.
const eventOnlySuffix = "@event"

// parseExpectation parses words of an ErrorCount.Label, such as "status 429 capacity_full" or
// "in_stream@event".
func parseExpectation(text string) (expectation, error) {
	words, event := strings.CutSuffix(text, eventOnlySuffix)
	e := expectation{words: strings.Fields(words), event: event}
	if len(e.words) == 0 || slices.ContainsFunc(e.words, func(w string) bool { return client.SafeIdentifier([]byte(w)) == "" }) {
		return e, exit.Usagef("--expect-errors %q: want words that the report has for a failure, such as '429 capacity_full', in_stream or in_stream@event", text)
	}
	return e, nil
}

// isExpected reports whether a failure at the given time is part of the test.
func (f *findings) isExpected(failure result.ErrorCount, at int64) bool {
	label := strings.Fields(failure.Label())
	after := slices.ContainsFunc(f.happened, func(e result.Event) bool { return isBlamedEvent(&e, float64(at)/1e9) })
	return slices.ContainsFunc(f.s.expect, func(e expectation) bool {
		missing := slices.ContainsFunc(e.words, func(w string) bool { return !slices.Contains(label, w) })
		return !missing && (after || !e.event)
	})
}

// isBlamedEvent reports whether failures at the given time, in seconds since the start of the run,
// are attributed to the event.
func isBlamedEvent(e *result.Event, at float64) bool {
	ran := e.Error == "" || e.EndS != 0
	return ran && at >= e.StartS && at < e.EndS+recoveryTime.Seconds()
}
