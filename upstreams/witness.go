package upstreams

import (
	"slices"
	"time"
)

// Witness says whose call failed and what it asked for. It holds nothing of the request: Body is a hash under a seed that
// this process alone knows.
type Witness struct {
	Key    string        // id of the client's key; empty: none
	Body   uint64        // hash of the request's body; 0: not known
	Served string        // the model's name at the engine, which a generation probe asks for
	Sent   bool          // the request had reached the engine
	Limit  time.Duration // how long such a call may wait for its first token; 0: not known
}

// independentOf reports whether two failures are evidence of their own: neither from the same key nor of the same body. Calls
// without a key may all come from one client, so they count as one key.
func (w Witness) independentOf(other Witness) bool {
	return w.Key != other.Key && (w.Body == 0 || w.Body != other.Body)
}

// witnesses are failures as evidence, as many as are needed to open a breaker. The zero value is empty.
type witnesses struct {
	independent [breakerRow]testimony
	n           int
	bodies      [breakerRow]testimony // of different bodies; an unknown one counts as different
	different   int
}

// testimony is one witness and its time.
type testimony struct {
	Witness
	at time.Time
}

// add takes in a failure as far as it is new evidence.
func (s *witnesses) add(w Witness, at time.Time) {
	t := testimony{w, at}
	if repeats := slices.ContainsFunc(s.bodies[:s.different], func(old testimony) bool { return w.Body != 0 && w.Body == old.Body }); !repeats && s.different < len(s.bodies) {
		s.bodies[s.different] = t
		s.different++
	}
	if depends := slices.ContainsFunc(s.independent[:s.n], func(old testimony) bool { return !w.independentOf(old.Witness) }); !depends && s.n < len(s.independent) {
		s.independent[s.n] = t
		s.n++
	}
}

// expire forgets what is older than the breaker's window.
func (s *witnesses) expire(now time.Time) {
	old := func(t testimony) bool { return now.Sub(t.at) >= windowSeconds*time.Second }
	s.n = len(slices.DeleteFunc(s.independent[:s.n], old))
	s.different = len(slices.DeleteFunc(s.bodies[:s.different], old))
}

// enough reports whether the evidence opens a breaker without a generation probe. Where there can be no probe, failures of
// different bodies are enough: one request that is repeated takes no engine out, but nobody else can be asked.
func (s *witnesses) enough(unprobed bool) bool {
	return s.n == len(s.independent) || unprobed && s.different == len(s.bodies)
}

// keys returns the keys of the independent witnesses.
func (s *witnesses) keys() []string {
	keys := make([]string, 0, s.n)
	for i := range s.n {
		keys = append(keys, s.independent[i].Key)
	}
	return keys
}
