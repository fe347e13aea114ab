package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// TraceBlock is the number of tokens that one hash id of a trace stands for.
const TraceBlock = 512

// agentBlock is the number of tokens in a block of a recorded session.
const agentBlock = 64

// The limits of a trace.
const (
	maxTraceTime   = 366 * 24 * time.Hour // the longest replay
	maxTraceStamp  = 9e12                 // largest timestamp in ms, which may be Unix time
	maxTraceTokens = 10_000_000           // most tokens of a prompt: some 50 MB
	maxTracePause  = 5 * time.Minute      // longest pause of a person or a tool
	traceSpread    = time.Minute          // the time within which recorded sessions without their own times start
)

// Call is a request of a trace.
type Call struct {
	// At is the time of the call, counted from the first call. It has no meaning for a call that
	// follows another call of its session: such a call is due Think after the answer to the call
	// with the index After.
	At      time.Duration
	After   int // negative: none
	Think   time.Duration
	In, Out int     // tokens
	Blocks  []int64 // of the prompt, TraceBlock tokens each; empty: nothing is shared
	// Session is the conversation. The trace names the session, or the reader infers it from the
	// prompt that this call continues. It is empty if unknown.
	Session string
}

// ReadTrace reads a trace. Errors are usage errors.
func ReadTrace(path string) ([]Call, error) {
	d, err := readDataset("trace", path)
	if err != nil {
		return nil, err
	}
	out := make([]Call, len(d.entries))
	for i := range d.entries {
		out[i] = d.entries[i].Call
	}
	return out, nil
}

// traceReader reads the lines of a trace in one of two formats: calls with times, or sessions whose
// calls follow each other.
type traceReader struct {
	calls    int
	headed   bool                     // its first line described the format
	sessions map[string]*agentSession // of the second format; nil: none seen
	roots    []int                    // first calls of sessions that are not sub-agents
	ids      int64                    // number of blocks assigned so far
	last     time.Duration
	lines    map[string]string // maps the prompt so far to its session
}

// agentSession is a recorded session read so far.
type agentSession struct {
	entries []int // indexes of its calls
	at, end []time.Duration
	tokens  []int
	blocks  [][]int64
}

// read reads one line. It returns use = false for a first line that only describes the format.
func (r *traceReader) read(raw json.RawMessage) (e entry, use bool, err error) {
	var in struct {
		Timestamp    *float64
		InputLength  *int    `json:"input_length"`
		OutputLength *int    `json:"output_length"`
		HashIDs      []int64 `json:"hash_ids"`
		SessionID    string  `json:"session_id"`
		agentCall
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return e, false, err
	}
	switch {
	case in.S != nil && in.Timestamp != nil, in.S != nil && r.sessions == nil && r.calls > 0, in.S == nil && r.sessions != nil:
		return e, false, errors.New("a trace has one form: timestamp, input_length and output_length, or s, i, t, in and out")
	case in.S != nil:
		e.Call, err = r.agent(&in.agentCall)
	case in.Timestamp == nil && in.InputLength == nil && in.OutputLength == nil && r.calls == 0 && !r.headed:
		r.headed = true
		return e, false, nil
	default:
		if in.Timestamp == nil || in.InputLength == nil || in.OutputLength == nil {
			return e, false, errors.New("want timestamp (ms), input_length and output_length, or of a recorded session s, i, t, in and out")
		}
		if *in.Timestamp < 0 || *in.Timestamp > maxTraceStamp || !lengths(*in.InputLength, *in.OutputLength) {
			return e, false, fmt.Errorf("want a timestamp from 0 and lengths of 1 to %d tokens", maxTraceTokens)
		}
		e.Call = Call{
			At: time.Duration(*in.Timestamp * float64(time.Millisecond)), After: -1,
			In: *in.InputLength, Out: *in.OutputLength, Blocks: in.HashIDs, Session: in.SessionID,
		}
		if r.calls > 0 && e.At < r.last {
			return e, false, errors.New("its timestamp is before that of the line above")
		}
		r.last = e.At
		if e.Session == "" {
			e.Session = r.continued(&e.Call)
		} else if !sessionOK(e.Session) {
			return e, false, errSession
		}
	}
	r.calls++
	return e, err == nil, err
}

// sessionOK reports whether a session's name is valid as a header.
func sessionOK(name string) bool {
	return len(name) <= 128 && !strings.ContainsFunc(name, func(c rune) bool { return c < '!' || c > '~' })
}

var errSession = errors.New("want a session name of 1 to 128 letters of ASCII, without spaces")

func lengths(in, out int) bool {
	return in >= 1 && in <= maxTraceTokens && out >= 0 && out <= maxTraceTokens
}

// continued returns the session of a call that names none. It is the session of the last call whose
// full blocks are a prefix of this prompt. There must be at least two such blocks, because one
// block may be a preamble that all calls share. Otherwise it is a new session. It is "" for a
// prompt that is too short to tell.
func (r *traceReader) continued(c *Call) string {
	whole := min(c.In/TraceBlock, len(c.Blocks))
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

// agentCall is a line of a recorded session.
type agentCall struct {
	S     *string  // the session; x/1 belongs to a sub-agent of x
	I     int      // number within the session
	T     *float64 // seconds from the start of the session, or of its parent
	API   float64  // recorded duration, in seconds
	Think float64  // recorded pause before the call, in seconds
	In    int      // tokens
	Out   int
	From  *int // the session's call that has the same prefix; negative: none
	Keep  int  // number of blocks shared with it
	Sys   int  // tokens of the tools and the system prompt; only in the first call
}

// agent schedules a call of a recorded session after the session's previous call. It schedules a
// sub-agent's first call after the last of its parent's calls that started earlier.
func (r *traceReader) agent(in *agentCall) (Call, error) {
	if r.sessions == nil {
		r.sessions = map[string]*agentSession{}
	}
	s := r.sessions[*in.S]
	if s == nil {
		s = &agentSession{}
		r.sessions[*in.S] = s
	}
	from := -1
	if in.From != nil {
		from = *in.From
	}
	switch n := len(s.entries); {
	case *in.S == "" || in.T == nil || !spanOK(*in.T) || !spanOK(in.API) || !spanOK(in.Think) || !lengths(in.In, in.Out):
		return Call{}, fmt.Errorf("want a session s, times t, api and think from 0 s, and lengths of 1 to %d tokens", maxTraceTokens)
	case !sessionOK(*in.S):
		return Call{}, errSession
	case in.I != n:
		return Call{}, fmt.Errorf("call %d of session %q: want %d, the next one", in.I, *in.S, n)
	case from >= n || from < -1 || in.Keep < 0 || from < 0 && in.Keep > 0 || from >= 0 && in.Keep > (s.tokens[from]+agentBlock-1)/agentBlock:
		return Call{}, fmt.Errorf("it keeps %d blocks of call %d, which is not before it or has fewer", in.Keep, from)
	case in.Sys < 0 || in.Sys > maxTraceTokens:
		return Call{}, errors.New("want sys from 0")
	}
	c := Call{
		In: in.In, Out: in.Out, Session: *in.S, After: -1,
		Think: min(span(in.Think), maxTracePause), Blocks: r.agentBlocks(s, in, from),
	}
	at := span(*in.T)
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
	s.at, s.end = append(s.at, at), append(s.end, at+span(in.API))
	s.blocks = append(s.blocks, c.Blocks)
	return c, nil
}

func spanOK(s float64) bool { return s >= 0 && s <= maxTraceTime.Seconds() }

func span(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// systemBlocks is the number of block ids reserved for the prefix that all recorded sessions share.
const systemBlocks = maxTraceTokens/TraceBlock + 1

// agentBlocks assigns ids to a prompt's blocks. A block keeps its id if it lies completely within
// the kept prefix of the prompt or, after a new prefix, within the system prompt.
func (r *traceReader) agentBlocks(s *agentSession, in *agentCall, from int) []int64 {
	out := make([]int64, (in.In+TraceBlock-1)/TraceBlock)
	for i := range out {
		end := (i + 1) * TraceBlock
		switch {
		case from >= 0 && end <= in.Keep*agentBlock && i < len(s.blocks[from]):
			out[i] = s.blocks[from][i]
		case from < 0 && end <= min(in.Sys, in.In):
			out[i] = int64(i)
		default:
			out[i] = systemBlocks + r.ids
			r.ids++
		}
	}
	return out
}

// length returns the duration of a trace, from the calls that have times.
func (d *dataset) length() time.Duration {
	last := time.Duration(0)
	for i := range d.entries {
		last = max(last, d.entries[i].At)
	}
	return last
}

// finish assigns times to sessions without any: they start one after another, within a minute.
func (r *traceReader) finish(entries []entry) {
	for i, first := range r.roots {
		entries[first].At = traceSpread * time.Duration(i) / time.Duration(len(r.roots))
	}
}
