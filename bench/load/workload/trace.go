package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// TraceBlockTokens is the number of tokens per hash id in a trace.
const TraceBlockTokens = 512

// agentBlockTokens is the number of tokens per block in a recorded session.
const agentBlockTokens = 64

// Limits for a trace.
const (
	maxTraceTime        = 366 * 24 * time.Hour // longest replay
	maxTraceTimestampMs = 9e12                 // largest timestamp in ms; it may be Unix time
	maxTraceTokens      = 10_000_000           // tokens in a prompt, which is about 50 MB of text
	maxTracePause       = 5 * time.Minute      // longest pause for a person or a tool
	// sessions without recorded times start at times spread over this duration
	sessionStartSpread = time.Minute
)

// TraceCall is a request in a trace.
type TraceCall struct {
	// At is the time of the call since the first call. For a call that follows another call in its
	// session, At is meaningless. Such a call is due Think after the response to the call with
	// index After.
	At      time.Duration
	After   int // index of the call that this call follows, or negative if there is none
	Think   time.Duration
	In, Out int // in tokens
	// Ids of the prompt's blocks, TraceBlockTokens tokens each; if empty, the prompt shares no blocks.
	Blocks []int64
	// Session is the conversation to which the call belongs, or "" if unknown. The trace names the
	// session, or the reader infers it from the earlier prompt that this call continues.
	Session string
}

// ReadTrace reads a trace. Its errors are usage errors.
func ReadTrace(path string) ([]TraceCall, error) {
	d, err := readDataset("trace", path)
	if err != nil {
		return nil, err
	}
	out := make([]TraceCall, len(d.entries))
	for i := range d.entries {
		out[i] = d.entries[i].TraceCall
	}
	return out, nil
}

// traceReader reads the lines of a trace in one of two formats: calls with times, or sessions in
// which one call follows another.
type traceReader struct {
	calls      int
	headerSeen bool                        // the first line described the format
	sessions   map[string]*recordedSession // sessions in a trace of sessions; nil if none has been read
	roots      []int                       // indices of the first calls of sessions that are not sub-agents
	ids        int64                       // number of block ids assigned so far
	last       time.Duration
	lines      map[string]string // maps a prompt to its session
}

// recordedSession is the part of a recorded session that has been read so far.
type recordedSession struct {
	entries []int // indices of the session's calls
	at, end []time.Duration
	tokens  []int
	blocks  [][]int64
}

// readLine reads one line. use is false for a first line that only describes the format.
func (r *traceReader) readLine(raw json.RawMessage) (e datasetEntry, use bool, err error) {
	var in struct {
		Timestamp    *float64
		InputLength  *int    `json:"input_length"`
		OutputLength *int    `json:"output_length"`
		HashIDs      []int64 `json:"hash_ids"`
		SessionID    string  `json:"session_id"`
		recordedCall
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return e, false, err
	}
	switch {
	case in.S != nil && in.Timestamp != nil, in.S != nil && r.sessions == nil && r.calls > 0, in.S == nil && r.sessions != nil:
		return e, false, errors.New("a trace has one form: timestamp, input_length and output_length, or s, i, t, in and out")
	case in.S != nil:
		e.TraceCall, err = r.scheduleRecordedCall(&in.recordedCall)
	case in.Timestamp == nil && in.InputLength == nil && in.OutputLength == nil && r.calls == 0 && !r.headerSeen:
		r.headerSeen = true
		return e, false, nil
	default:
		if in.Timestamp == nil || in.InputLength == nil || in.OutputLength == nil {
			return e, false, errors.New("want timestamp (ms), input_length and output_length, or of a recorded session s, i, t, in and out")
		}
		if *in.Timestamp < 0 || *in.Timestamp > maxTraceTimestampMs || !areValidLengths(*in.InputLength, *in.OutputLength) {
			return e, false, fmt.Errorf("want a timestamp from 0 and lengths of 1 to %d tokens", maxTraceTokens)
		}
		e.TraceCall = TraceCall{
			At: time.Duration(*in.Timestamp * float64(time.Millisecond)), After: -1,
			In: *in.InputLength, Out: *in.OutputLength, Blocks: in.HashIDs, Session: in.SessionID,
		}
		if r.calls > 0 && e.At < r.last {
			return e, false, errors.New("its timestamp is before that of the line above")
		}
		r.last = e.At
		if e.Session == "" {
			e.Session = r.findContinuedSession(&e.TraceCall)
		} else if !isValidSessionName(e.Session) {
			return e, false, errSession
		}
	}
	r.calls++
	return e, err == nil, err
}

// isValidSessionName reports whether a session name can be sent in a header.
func isValidSessionName(name string) bool {
	return len(name) <= 128 && !strings.ContainsFunc(name, func(c rune) bool { return c < '!' || c > '~' })
}

var errSession = errors.New("want a session name of 1 to 128 letters of ASCII, without spaces")

func areValidLengths(in, out int) bool {
	return in >= 1 && in <= maxTraceTokens && out >= 0 && out <= maxTraceTokens
}

// findContinuedSession determines the session of a call that does not name one. It returns the
// session of the last call whose full blocks are a prefix of the prompt of c. At least two full
// blocks are required, because a single block may be a preamble that all calls share. If no call
// matches, it returns a new session. If the prompt is too short to decide, it returns "".
func (r *traceReader) findContinuedSession(c *TraceCall) string {
	whole := min(c.In/TraceBlockTokens, len(c.Blocks))
	if whole < 2 {
		return ""
	}
	if r.lines == nil {
		r.lines = map[string]string{}
	}
	key := make([]byte, 0, 8*whole)
	session := ""
	for i, b := range c.Blocks[:whole] {
		for shift := 0; shift < 64; shift += 8 {
			key = append(key, byte(b>>shift))
		}
		if s := r.lines[string(key)]; i > 0 && s != "" {
			session = s
		}
	}
	if session == "" {
		session = fmt.Sprintf("line-%d", r.calls+1)
	}
	r.lines[string(key)] = session
	return session
}

// recordedCall is a line in a recorded session.
type recordedCall struct {
	S     *string  // session; x/1 is a sub-agent of x
	I     int      // number within the session
	T     *float64 // seconds since the session or its parent started
	API   float64  // recorded duration in seconds
	Think float64  // recorded pause before the call in seconds
	In    int      // in tokens
	Out   int
	// index of an earlier call in the session whose prompt has the same prefix, or negative if there
	// is none
	From *int
	Keep int // number of blocks shared with that call
	Sys  int // tokens in the tools and the system prompt; set only in the first call
}

// scheduleRecordedCall schedules a call of a recorded session so that it follows the session's
// previous call. The first call of a sub-agent follows the last parent call that started before it.
func (r *traceReader) scheduleRecordedCall(in *recordedCall) (TraceCall, error) {
	if r.sessions == nil {
		r.sessions = map[string]*recordedSession{}
	}
	s := r.sessions[*in.S]
	if s == nil {
		s = &recordedSession{}
		r.sessions[*in.S] = s
	}
	from := -1
	if in.From != nil {
		from = *in.From
	}
	switch n := len(s.entries); {
	case *in.S == "" || in.T == nil || !isValidTraceTime(*in.T) || !isValidTraceTime(in.API) || !isValidTraceTime(in.Think) || !areValidLengths(in.In, in.Out):
		return TraceCall{}, fmt.Errorf("want a session s, times t, api and think from 0 s, and lengths of 1 to %d tokens", maxTraceTokens)
	case !isValidSessionName(*in.S):
		return TraceCall{}, errSession
	case in.I != n:
		return TraceCall{}, fmt.Errorf("call %d of session %q: want %d, the next one", in.I, *in.S, n)
	case from >= n || from < -1 || in.Keep < 0 || from < 0 && in.Keep > 0 || from >= 0 && in.Keep > (s.tokens[from]+agentBlockTokens-1)/agentBlockTokens:
		return TraceCall{}, fmt.Errorf("it keeps %d blocks of call %d, which is not before it or has fewer", in.Keep, from)
	case in.Sys < 0 || in.Sys > maxTraceTokens:
		return TraceCall{}, errors.New("want sys from 0")
	}
	c := TraceCall{
		In: in.In, Out: in.Out, Session: *in.S, After: -1,
		Think: min(roundedDuration(in.Think), maxTracePause), Blocks: r.assignBlockIDs(s, in, from),
	}
	at := roundedDuration(*in.T)
	parent, _, isSub := strings.Cut(*in.S, "/")
	if p := r.sessions[parent]; len(s.entries) > 0 {
		c.After = s.entries[len(s.entries)-1]
	} else if isSub && p != nil {
		i := 0
		for i+1 < len(p.at) && p.at[i+1] <= at {
			i++
		}
		c.After, c.Think = p.entries[i], min(max(0, at-p.end[i]), maxTracePause)
	} else {
		r.roots = append(r.roots, r.calls)
	}
	s.entries, s.tokens = append(s.entries, r.calls), append(s.tokens, in.In)
	s.at, s.end = append(s.at, at), append(s.end, at+roundedDuration(in.API))
	s.blocks = append(s.blocks, c.Blocks)
	return c, nil
}

func isValidTraceTime(s float64) bool { return s >= 0 && s <= maxTraceTime.Seconds() }

func roundedDuration(s float64) time.Duration {
	return time.Duration(math.Round(s * float64(time.Second)))
}

// reservedSystemBlocks is the number of block ids reserved for the prefix shared by all recorded
// sessions.
const reservedSystemBlocks = maxTraceTokens/TraceBlockTokens + 1

// assignBlockIDs assigns ids to the blocks of a prompt. A block that lies completely within the
// shared part of the prompt gets the id that it has in the earlier call. If the prompt has a new
// prefix, the shared part is the system prompt.
func (r *traceReader) assignBlockIDs(s *recordedSession, in *recordedCall, from int) []int64 {
	out := make([]int64, (in.In+TraceBlockTokens-1)/TraceBlockTokens)
	for i := range out {
		end := (i + 1) * TraceBlockTokens
		switch {
		case from >= 0 && end <= in.Keep*agentBlockTokens && i < len(s.blocks[from]):
			out[i] = s.blocks[from][i]
		case from < 0 && end <= min(in.Sys, in.In):
			out[i] = int64(i)
		default:
			out[i] = reservedSystemBlocks + r.ids
			r.ids++
		}
	}
	return out
}

// traceDuration returns the duration of a trace, computed from the calls that have times.
func (d *dataset) traceDuration() time.Duration {
	last := time.Duration(0)
	for i := range d.entries {
		last = max(last, d.entries[i].At)
	}
	return last
}

// assignStartTimes assigns a start time within sessionStartSpread to each session that has none.
func (r *traceReader) assignStartTimes(entries []datasetEntry) {
	for i, first := range r.roots {
		entries[first].At = sessionStartSpread * time.Duration(i) / time.Duration(len(r.roots))
	}
}
