package bench

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

// workloadSpec says what requests are like.
type workloadSpec struct {
	seed        uint64
	mix         []dialectShare
	in, out     length
	ownOut      bool // out is asked for, and not what the data set says
	dataset     string
	path        string // of its file; empty: made
	timeScale   float64
	prefixLen   int
	numPrefixes int
	numTurns    int
	tools       int
	images      int
	imageW      int
	imageH      int
	audioFile   string
	voice       string
	extra       []byte      // members of every body, each with its comma before it
	form        []formField // the same as fields of a form
	noStream    bool
	allowCache  bool
	pairs       bool // of two targets
	leaveShare  float64
	leave       departure
}

// dialectShare is a dialect's part of the mix.
type dialectShare struct {
	d      *dialect
	model  string // empty: the run's model
	weight float64
}

// workload makes requests. What the n-th one is depends on seed, nonce and n alone, not on when it is asked for.
// It is safe for concurrent use once prepared.
type workload struct {
	spec  *workloadSpec
	model string // the run's
	other string // model of the second target; empty: the same
	nonce string // before each prompt; empty with --allow-cache
	data  *dataset
	texts map[*dialect][]byte // rendered tools
	media *media
	// unstreamed are dialects whose answers the target does not stream; the preflight finds out.
	unstreamed map[*dialect]bool

	// wordsPerToken turns a length in tokens into words; the preflight measures it.
	wordsPerToken float64

	mu   sync.Mutex
	next int // id of the next session
}

// session is a conversation: its turns are requests one after another.
type session struct {
	turns   int
	human   [][]byte // what the user says, of a data set; nil: made
	history []message
}

func newWorkload(s *workloadSpec) (*workload, error) {
	w := &workload{spec: s, wordsPerToken: 1, texts: map[*dialect][]byte{}, unstreamed: map[*dialect]bool{}}
	if !s.allowCache {
		w.nonce = strconv.FormatUint(rand.Uint64()&(1<<40-1), 36) // of the run, not of the seed: the last run's must differ
	}
	var err error
	if s.path != "" {
		if w.data, err = readDataset(s.dataset, s.path); err != nil {
			return nil, err
		}
	}
	if w.media, err = newMedia(s); err != nil {
		return nil, err
	}
	for _, m := range s.mix {
		w.texts[m.d] = appendTools(nil, m.d, s.tools)
	}
	return w, nil
}

// rng returns the source of everything random about the n-th session.
func (w *workload) rng(n int) *rand.Rand {
	return rand.New(rand.NewPCG(w.spec.seed, uint64(n)+1))
}

// take makes the first request of the next session. With two targets, sessions come in pairs that differ in the nonce alone, and
// which of the two targets comes first is drawn for each pair.
func (w *workload) take() *request {
	w.mu.Lock()
	n := w.next
	w.next++
	w.mu.Unlock()
	id := n
	if w.spec.pairs {
		id = n / 2
	}
	rng := w.rng(id)
	q := &request{id: n, pair: -1}
	if w.spec.pairs {
		q.pair = id
		q.target = (n & 1) ^ rng.IntN(2)
	}
	pick := rng.Float64()
	for _, m := range w.spec.mix {
		if q.d, q.model = m.d, cmp.Or(m.model, w.model); pick < m.weight {
			break
		}
		pick -= m.weight
	}
	if q.target == 1 && w.other != "" {
		q.model = w.other
	}
	w.fill(q, id, rng)
	if w.spec.leaveShare > 0 && rng.Float64() < w.spec.leaveShare {
		leave := w.spec.leave
		q.leave = &leave
	}
	return q
}

// streams reports whether answers of a dialect are asked for as streams.
func (w *workload) streams(d *dialect) bool {
	return d.streams && !w.spec.noStream && !w.unstreamed[d]
}

// fill gives the request its contents.
func (w *workload) fill(q *request, id int, rng *rand.Rand) {
	q.stream, q.form = w.streams(q.d), w.spec.form
	q.extra = w.spec.extra
	q.tools = w.texts[q.d]
	q.voice = w.spec.voice
	if q.d.name == "transcription" {
		q.audio, q.audioS = w.media.audio, w.media.audioS
		return
	}
	q.inWanted, q.outWanted = w.spec.in.draw(rng), w.spec.out.draw(rng)
	turns := 1
	if q.d.tokens && q.d.name != "completions" {
		turns = w.spec.numTurns
	}
	q.session = &session{turns: turns}
	tag := w.tag(q)
	var user, prefix []byte
	switch {
	case w.data == nil:
		prefix = w.prefix(id, w.shared(q))
		user = w.words(tag, rng, q.inWanted)
	case w.spec.dataset == "trace":
		e := &w.data.entries[id%len(w.data.entries)]
		q.inWanted, q.outWanted = e.in, max(e.out, 1)
		user = w.traced(w.shared(q), e, id)
	default:
		e := &w.data.entries[id%len(w.data.entries)]
		if !w.spec.ownOut && e.out > 0 {
			q.outWanted = e.out
		}
		q.session.human = e.human
		if turns > 1 {
			q.session.turns = min(turns, len(e.human))
		}
		user = append([]byte(tag), e.human[0]...)
		q.inWanted = len(user) / 4
	}
	q.session.history = make([]message, 0, 2*q.session.turns)
	if prefix != nil {
		q.session.history = append(q.session.history, message{role: "system", text: prefix})
		q.inWanted += w.spec.prefixLen
	}
	q.session.history = append(q.session.history, message{role: "user", text: user, images: w.media.pick(rng, w.spec.images)})
	q.messages = q.session.history
	q.keep = q.session.turns > 1
}

// trial is a short request of the preflight.
func (w *workload) trial(id int, d *dialect, model string, target, words int) *request {
	q := &request{id: id, d: d, model: model, stream: w.streams(d), form: w.spec.form, target: target, outWanted: 2, voice: w.spec.voice, tools: w.texts[d], audio: w.media.audio, audioS: w.media.audioS}
	q.messages = []message{{role: "user", text: appendWords([]byte(w.tag(q)), w.rng(1<<40+target), words)}}
	return q
}

// tracePacer replays the times of the trace, the first count of them; 0: all.
func (w *workload) tracePacer(count int) *tracePacer {
	var times []time.Duration
	for i, e := range w.data.entries {
		if count > 0 && i == count {
			break
		}
		times = append(times, time.Duration(float64(e.at)*w.spec.timeScale))
	}
	return &tracePacer{times}
}

// tag is the mark of a request that no cache knows: it begins with what differs, so that not even the mark itself is found. The two
// prompts of a pair differ in it too, or one would warm the cache for the other.
func (w *workload) tag(q *request) string {
	if w.nonce == "" {
		return ""
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", w.nonce, q.id)
	return strconv.FormatUint(h.Sum64(), 36) + " "
}

// shared is the mark of a prefix: the same for all requests of the run to one target.
func (w *workload) shared(q *request) string {
	if w.nonce == "" {
		return ""
	}
	return w.nonce + strconv.Itoa(q.target) + " "
}

// words returns n tokens' worth of words behind the tag.
func (w *workload) words(tag string, rng *rand.Rand, n int) []byte {
	count := max(1, int(math.Round(float64(n)*w.wordsPerToken)))
	out := make([]byte, 0, len(tag)+6*count)
	out = appendWords(append(out, tag...), rng, count)
	return out[:len(out)-1]
}

// prefix returns the shared prefix that the session begins with, or nil.
func (w *workload) prefix(id int, tag string) []byte {
	if w.spec.prefixLen == 0 {
		return nil
	}
	which := id % w.spec.numPrefixes
	return w.words(tag, rand.New(rand.NewPCG(w.spec.seed, 1<<63+uint64(which))), w.spec.prefixLen)
}

// traced makes the prompt of a line of a trace: equal hash ids give equal blocks of text, so that what was shared then is shared
// now.
func (w *workload) traced(tag string, e *entry, id int) []byte {
	if len(e.hashes) == 0 {
		return w.words(tag, w.rng(id), e.in)
	}
	out := []byte(tag)
	left := e.in
	for _, h := range e.hashes {
		n := min(left, traceBlock)
		if n <= 0 {
			break
		}
		out = append(append(out, w.words("", rand.New(rand.NewPCG(w.spec.seed, 1<<62+uint64(h))), n)...), ' ')
		left -= n
	}
	if left > 0 {
		out = append(out, w.words("", w.rng(id), left)...)
	}
	return out
}

// follow makes the next turn of a session from the reply to the last one; nil when the session is over.
func (w *workload) follow(q *request, p *reply) *request {
	s := q.session
	if s == nil || q.turn+1 >= s.turns {
		return nil
	}
	next := *q
	next.turn++
	next.leave, next.keep = nil, next.turn+1 < s.turns
	rng := w.rng(q.id<<8 + next.turn)
	said := message{role: "assistant", text: append([]byte(nil), p.text...)}
	var answer message
	for i := range p.calls {
		c := &p.calls[i]
		said.calls = append(said.calls, toolCall{id: clone(c.id), name: clone(c.name), args: clone(c.args)})
		answer.results = append(answer.results, toolResult{id: clone(c.id), text: w.words("", rng, 64)})
	}
	if len(said.text) == 0 && len(said.calls) == 0 {
		said.text = []byte("(nothing)") // no dialect takes an empty reply back
	}
	s.history = append(s.history, said)
	if len(answer.results) > 0 {
		answer.role = "user"
		s.history = append(s.history, answer)
	} else {
		user := message{role: "user"}
		if s.human != nil {
			user.text = s.human[next.turn]
		} else {
			user.text = w.words("", rng, w.spec.in.draw(rng))
		}
		s.history = append(s.history, user)
	}
	next.messages = s.history
	next.inWanted = 0
	for i := range s.history {
		next.inWanted += len(s.history[i].text) / 5
	}
	return &next
}

func clone(b []byte) []byte { return append([]byte(nil), b...) }

// appendTools appends the member "tools" with n tools, as the dialect writes them; nothing for none, or a dialect without.
func appendTools(dst []byte, d *dialect, n int) []byte {
	form := map[string]string{
		"chat":      `{"type":"function","function":{"name":"look_up_%d","description":"Looks up topic %d.","parameters":%s}}`,
		"messages":  `{"name":"look_up_%d","description":"Looks up topic %d.","input_schema":%s}`,
		"responses": `{"type":"function","name":"look_up_%d","description":"Looks up topic %d.","parameters":%s,"strict":false}`,
	}[d.name]
	if n == 0 || form == "" {
		return dst
	}
	const parameters = `{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer"}},"required":["query"]}`
	dst = append(dst, `,"tools":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, form, i, i, parameters)
	}
	return append(dst, ']')
}
