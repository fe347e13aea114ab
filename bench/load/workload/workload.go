package workload

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
)

// Spec describes the requests of a run.
type Spec struct {
	Seed        uint64
	Mix         []DialectShare
	In, Out     lengthDistribution
	OwnOut      bool // Out overrides the lengths in the data set
	Dataset     string
	Path        string // file of the data set; if empty, prompts are generated
	TimeScale   float64
	PrefixLen   int
	NumPrefixes int
	NumTurns    int
	Tools       int
	Images      int
	IgnoreEOS   bool
	NoStream    bool
	AllowCache  bool
	Pairs       bool // each request is sent to two targets
	LeaveShare  float64
	Leave       client.PlannedDeparture
}

// DialectShare is a dialect's fraction of the mix.
type DialectShare struct {
	D      *client.Dialect
	Model  string // if empty, the run's model
	Weight float64
}

// Workload creates requests. Request number n depends only on the seed, the nonce and n. After the
// preflight, a Workload is safe for concurrent use.
type Workload struct {
	spec  *Spec
	Model string // model of the run
	Other string // model of the second target; if empty, the same model
	Nonce string // text at the start of each prompt; empty with AllowCache
	data  *dataset
	texts map[*client.Dialect][]byte // maps each dialect to the tools in its format
	media *mediaPool
	// Unstreamed contains the dialects in which the target does not stream. It is set by the
	// preflight.
	Unstreamed map[*client.Dialect]bool

	// WordsPerToken converts lengths in tokens to words. It is measured by the preflight.
	WordsPerToken float64

	roots     []int         // indices of the trace entries that have a time
	followers map[int][]int // maps a trace entry to the entries that follow it

	mu   sync.Mutex
	next int // id of the next session
}

// New returns a workload. Its errors are usage errors.
func New(s *Spec) (*Workload, error) {
	w := &Workload{spec: s, WordsPerToken: 1, texts: map[*client.Dialect][]byte{}, Unstreamed: map[*client.Dialect]bool{}}
	if !s.AllowCache {
		w.Nonce = strconv.FormatUint(rand.Uint64()&(1<<40-1), 36) // unlike the seed, it differs between runs
	}
	var err error
	if s.Path != "" {
		if w.data, err = readDataset(s.Dataset, s.Path); err != nil {
			return nil, err
		}
		if last := w.data.traceDuration(); float64(last)*s.TimeScale > float64(maxTraceTime) {
			return nil, exit.Usagef("%s: at --time-scale %v its %v would last longer than a year", s.Path, s.TimeScale, last)
		}
	}
	if w.data != nil && s.Dataset == "trace" {
		w.followers = map[int][]int{}
		for i := range w.data.entries {
			if after := w.data.entries[i].After; after >= 0 {
				w.followers[after] = append(w.followers[after], i)
			} else {
				w.roots = append(w.roots, i)
			}
		}
	}
	if w.media, err = newMediaPool(s); err != nil {
		return nil, err
	}
	for _, m := range s.Mix {
		w.texts[m.D] = client.AppendTools(nil, m.D, s.Tools)
	}
	return w, nil
}

// SessionRand returns the random number generator of session n.
func (w *Workload) SessionRand(n int) *rand.Rand {
	return rand.New(rand.NewPCG(w.spec.Seed, uint64(n)+1))
}

// NextSession creates the first request of the next session. If there are two targets, sessions
// come in pairs that differ only in the nonce. Which target comes first is random.
func (w *Workload) NextSession() *client.Request {
	w.mu.Lock()
	n := w.next
	w.next++
	w.mu.Unlock()
	if w.roots != nil {
		n = w.roots[n%len(w.roots)]
	}
	return w.firstRequest(n)
}

// FollowingCall is a call in a trace that follows another call of its session. It is due when the
// think time has passed after the response to that call.
type FollowingCall struct {
	Request *client.Request
	Think   time.Duration
}

// FollowingCalls returns the calls in the trace that follow the call q.
func (w *Workload) FollowingCalls(q *client.Request) []FollowingCall {
	var out []FollowingCall
	for _, n := range w.followers[q.ID] {
		out = append(out, FollowingCall{w.firstRequest(n), time.Duration(float64(w.data.entries[n].Think) * w.spec.TimeScale)})
	}
	return out
}

// firstRequest creates the first request of session n.
func (w *Workload) firstRequest(n int) *client.Request {
	id := n
	if w.spec.Pairs {
		id = n / 2
	}
	rng := w.SessionRand(id)
	q := &client.Request{ID: n, Pair: -1}
	if w.spec.Pairs {
		q.Pair = id
		q.Target = (n & 1) ^ rng.IntN(2)
	}
	pick := rng.Float64()
	for _, m := range w.spec.Mix {
		if q.D, q.Model = m.D, cmp.Or(m.Model, w.Model); pick < m.Weight {
			break
		}
		pick -= m.Weight
	}
	if q.Target == 1 && w.Other != "" {
		q.Model = w.Other
	}
	w.fillRequest(q, id, rng)
	if w.spec.LeaveShare > 0 && rng.Float64() < w.spec.LeaveShare {
		q.Leave = new(w.spec.Leave)
	}
	return q
}

// WantsStream reports whether responses in a dialect are requested as streams.
func (w *Workload) WantsStream(d *client.Dialect) bool {
	return d.Streams && !w.spec.NoStream && !w.Unstreamed[d]
}

var ignoreEOS = []byte(`,"ignore_eos":true`)

func (w *Workload) fillRequest(q *client.Request, id int, rng *rand.Rand) {
	q.Stream = w.WantsStream(q.D)
	if w.spec.IgnoreEOS {
		q.Extra = ignoreEOS
	}
	q.Tools = w.texts[q.D]
	if q.D.Name == "transcription" {
		q.Audio, q.AudioS = w.media.audio, w.media.audioS
		return
	}
	q.InWanted, q.OutWanted = w.spec.In.draw(rng), w.spec.Out.draw(rng)
	turns := 1
	if q.D.Tokens && q.D.Name != "completions" {
		turns = w.spec.NumTurns
	}
	q.Session = &client.Session{Turns: turns}
	tag := w.uniqueMark(q)
	var user, prefix []byte
	switch {
	case w.data == nil:
		prefix = w.sharedPrefix(id, w.sharedPrefixMark(q))
		user = w.randomText(tag, rng, q.InWanted)
	case w.spec.Dataset == "trace":
		e := &w.data.entries[id%len(w.data.entries)]
		q.InWanted, q.OutWanted, q.SessionID = e.In, max(e.Out, 1), w.Nonce+e.Session
		user = w.tracePrompt(w.sharedPrefixMark(q), e, id)
	default:
		e := &w.data.entries[id%len(w.data.entries)]
		if !w.spec.OwnOut && e.Out > 0 {
			q.OutWanted = e.Out
		}
		q.Session.Human = e.human
		if turns > 1 {
			q.Session.Turns = min(turns, len(e.human))
		}
		user = append([]byte(tag), e.human[0]...)
		q.InWanted = len(user) / 4
	}
	q.Session.History = make([]client.Message, 0, 2*q.Session.Turns)
	if prefix != nil {
		q.Session.History = append(q.Session.History, client.Message{Role: "system", Text: prefix})
		q.InWanted += w.spec.PrefixLen
	}
	q.Session.History = append(q.Session.History, client.Message{
		Role: "user", Text: user,
		Images: w.media.pickImages(rng, w.spec.Images),
	})
	q.Messages = q.Session.History
	q.Keep = q.Session.Turns > 1
}

// PreflightRequest returns a short request for the preflight.
func (w *Workload) PreflightRequest(id int, d *client.Dialect, model string, target, words int) *client.Request {
	q := &client.Request{
		ID: id, D: d, Model: model, Stream: w.WantsStream(d), Target: target,
		OutWanted: 2, Tools: w.texts[d], Audio: w.media.audio, AudioS: w.media.audioS,
	}
	q.Messages = []client.Message{{Role: "user", Text: appendRandomWords([]byte(w.uniqueMark(q)), w.SessionRand(1<<40+target), words)}}
	return q
}

// TracePacer returns a pacer that replays the first count lines of the trace, or all lines if count
// is 0.
func (w *Workload) TracePacer(count int) *ReplayPacer {
	var times []time.Duration
	for _, i := range w.roots {
		if count > 0 && i >= count {
			break
		}
		times = append(times, time.Duration(float64(w.data.entries[i].At)*w.spec.TimeScale))
	}
	return &ReplayPacer{times}
}

// uniqueMark returns a request's mark, which no cache contains. The characters that differ come
// first, so that no part of the mark hits a cache. The two prompts of a pair have different marks.
// Otherwise, one prompt would warm the cache for the other.
func (w *Workload) uniqueMark(q *client.Request) string {
	if w.Nonce == "" {
		return ""
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", w.Nonce, q.ID)
	return strconv.FormatUint(h.Sum64(), 36) + " "
}

// sharedPrefixMark returns the mark at the start of a shared prefix. It is the same in all requests
// that the run sends to one target.
func (w *Workload) sharedPrefixMark(q *client.Request) string {
	if w.Nonce == "" {
		return ""
	}
	return w.Nonce + strconv.Itoa(q.Target) + " "
}

func (w *Workload) randomText(tag string, rng *rand.Rand, n int) []byte {
	count := max(1, int(math.Round(float64(n)*w.WordsPerToken)))
	out := make([]byte, 0, len(tag)+6*count)
	out = appendRandomWords(append(out, tag...), rng, count)
	return out[:len(out)-1]
}

// sharedPrefix returns the shared prefix of a session, or nil.
func (w *Workload) sharedPrefix(id int, tag string) []byte {
	if w.spec.PrefixLen == 0 {
		return nil
	}
	which := id % w.spec.NumPrefixes
	return w.randomText(tag, rand.New(rand.NewPCG(w.spec.Seed, 1<<63+uint64(which))), w.spec.PrefixLen)
}

// tracePrompt creates the prompt for a line of the trace. Equal hash ids result in equal blocks of
// text, so requests share the blocks that they shared in the recording.
func (w *Workload) tracePrompt(tag string, e *datasetEntry, id int) []byte {
	if len(e.Blocks) == 0 {
		return w.randomText(tag, w.SessionRand(id), e.In)
	}
	out := []byte(tag)
	left := e.In
	for _, h := range e.Blocks {
		n := min(left, TraceBlockTokens)
		if n <= 0 {
			break
		}
		out = append(append(out, w.randomText("", rand.New(rand.NewPCG(w.spec.Seed, 1<<62+uint64(h))), n)...), ' ')
		left -= n
	}
	if left > 0 {
		out = append(out, w.randomText("", w.SessionRand(id), left)...)
	}
	return out
}

// NextTurn creates the next turn of a session from the reply to the previous turn. If the session
// is over, it returns nil.
func (w *Workload) NextTurn(q *client.Request, p *client.Reply) *client.Request {
	s := q.Session
	if s == nil || q.Turn+1 >= s.Turns {
		return nil
	}
	next := *q
	next.Turn++
	next.Leave, next.Keep = nil, next.Turn+1 < s.Turns
	rng := w.SessionRand(q.ID<<8 + next.Turn)
	said := client.Message{Role: "assistant", Text: append([]byte(nil), p.Text...)}
	var answer client.Message
	for i := range p.Calls {
		c := &p.Calls[i]
		said.Calls = append(said.Calls, client.ToolCall{
			ID: bytes.Clone(c.ID), Name: bytes.Clone(c.Name),
			Args: bytes.Clone(c.Args),
		})
		answer.Results = append(answer.Results, client.ToolResult{ID: bytes.Clone(c.ID), Text: w.randomText("", rng, 64)})
	}
	if len(said.Text) == 0 && len(said.Calls) == 0 {
		said.Text = []byte("(nothing)") // no dialect accepts an empty message in the history
	}
	s.History = append(s.History, said)
	if len(answer.Results) > 0 {
		answer.Role = "user"
		s.History = append(s.History, answer)
	} else {
		user := client.Message{Role: "user"}
		if s.Human != nil {
			user.Text = s.Human[next.Turn]
		} else {
			user.Text = w.randomText("", rng, w.spec.In.draw(rng))
		}
		s.History = append(s.History, user)
	}
	next.Messages = s.History
	next.InWanted = 0
	for i := range s.History {
		next.InWanted += len(s.History[i].Text) / 5
	}
	return &next
}
