package upstreams

import (
	"slices"
	"time"
)

// FailureSource is the key and the request of a call that failed, as evidence for the breaker. It
// holds nothing of the request itself: Body is a hash under a seed of this process.
type FailureSource struct {
	Key    string        // id of the client's key; empty: none
	Body   uint64        // hash of the request's body; 0: not known
	Served string        // the model's name at the engine, which a generation probe asks for
	Sent   bool          // the request had reached the engine
	Begun  bool          // the answer had begun, so a first token does not show the failure
	Limit  time.Duration // how long such a call may wait for its first token; 0: not known
}

// independentOf reports whether two failures are independent evidence: neither the same key nor the
// same body. Calls without a key may all come from one client, so they count as one key.
func (f FailureSource) independentOf(other FailureSource) bool {
	return f.Key != other.Key && (f.Body == 0 || f.Body != other.Body)
}

// evidence holds as many failures as are needed to open a breaker. The zero value is empty.
type evidence struct {
	independent [breakerRow]failureRecord
	n           int
	bodies      [breakerRow]failureRecord // of different bodies; an unknown one counts as different
	bodyCount   int
}

// failureRecord is one failure and its time.
type failureRecord struct {
	FailureSource
	at time.Time
}

// add keeps a failure, as far as it is new evidence.
func (e *evidence) add(f FailureSource, at time.Time) {
	t := failureRecord{f, at}
	if repeats := slices.ContainsFunc(e.bodies[:e.bodyCount], func(old failureRecord) bool { return f.Body != 0 && f.Body == old.Body }); !repeats && e.bodyCount < len(e.bodies) {
		e.bodies[e.bodyCount] = t
		e.bodyCount++
	}
	if depends := slices.ContainsFunc(e.independent[:e.n], func(old failureRecord) bool { return !f.independentOf(old.FailureSource) }); !depends && e.n < len(e.independent) {
		e.independent[e.n] = t
		e.n++
	}
}

// expire drops failures older than the breaker's window.
func (e *evidence) expire(now time.Time) {
	old := func(t failureRecord) bool { return now.Sub(t.at) >= windowSeconds*time.Second }
	e.n = len(slices.DeleteFunc(e.independent[:e.n], old))
	e.bodyCount = len(slices.DeleteFunc(e.bodies[:e.bodyCount], old))
}

// enough reports whether the evidence opens a breaker without a generation probe. Where no probe is
// possible, failures of different bodies are enough: one request that is repeated takes no engine
// out.
func (e *evidence) enough(unprobed bool) bool {
	return e.n == len(e.independent) || unprobed && e.bodyCount == len(e.bodies)
}

// keys returns the keys of the independent failures.
func (e *evidence) keys() []string {
	keys := make([]string, 0, e.n)
	for i := range e.n {
		keys = append(keys, e.independent[i].Key)
	}
	return keys
}
