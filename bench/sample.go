package bench

import "slices"

// none marks a time or a count that did not come to be.
const none = -1

// sample is what is known of one request, in the form that a run keeps millions of. Times are nanoseconds since the start of
// the run, or none.
type sample struct {
	id, stage, session, turn, pair int
	dialect                        *dialect
	target                         uint8
	stream, left                   bool

	scheduled, sent, firstByte, firstToken, firstVisible, lastToken, end int64
	connect                                                              int64

	status int
	err    string // one of Kinds
	code   string
	faults faultSet

	inWanted, outWanted, in, out, cached int
	inSource, outSource                  string
	finish                               string

	chunks, coalesced int
	bytes             int64
	upstream          string
	attempts          int
	queue             int64
	audio             float64
	gaps              []int64 // only with --save-detailed
	itlSum            int64   // of the gaps, for objectives
}

func newSample(q *request, stage int) sample {
	return sample{
		id: q.id, stage: stage, turn: q.turn, session: q.id, pair: q.pair, dialect: q.d, target: uint8(q.target), stream: q.stream,
		scheduled: none, sent: none, firstByte: none, firstToken: none, firstVisible: none, lastToken: none, end: none, connect: none,
		inWanted: q.inWanted, outWanted: q.outWanted, in: none, out: none, cached: none, attempts: none, queue: none, audio: q.audioS,
	}
}

// completed reports whether the request was answered whole.
func (s *sample) completed() bool { return s.err == "" && !s.left }

// failed reports whether it counts as a failure: a client that left on purpose does not, nor does what the end of the run cut off.
func (s *sample) failed() bool { return s.err != "" && !s.left && s.err != ErrInterrupted }

// latency returns a measure of the request in nanoseconds, or none. ITL is the mean of its gaps.
func (s *sample) latency(measure string) int64 {
	since := func(to, from int64) int64 {
		if to == none || from == none {
			return none
		}
		return to - from
	}
	switch measure {
	case TTFT:
		return since(s.firstToken, s.sent)
	case TTFV:
		return since(s.firstVisible, s.sent)
	case TTFTFromSchedule:
		return since(s.firstToken, s.scheduled)
	case E2EL:
		return since(s.end, s.sent)
	case E2ELFromSchedule:
		return since(s.end, s.scheduled)
	case ScheduleDelay:
		return since(s.sent, s.scheduled)
	case Queue:
		return s.queue
	case Connect:
		return s.connect
	case TPOT:
		if s.out > 1 && s.lastToken > s.firstToken { // else all came in one read, and it cannot be told
			return (s.lastToken - s.firstToken) / int64(s.out-1)
		}
	case ITL:
		if n := s.chunks - s.coalesced - 1; n > 0 {
			return s.itlSum / int64(n)
		}
	}
	return none
}

// good reports whether a request met every objective. What was not measured of a completed request breaks none: an answer of
// one token has no TPOT, as in vLLM's tool.
func (s *sample) good(objectives []Objective) bool {
	if !s.completed() {
		return false
	}
	for _, o := range objectives {
		if o.Measure == "error_rate" {
			continue
		}
		if v := s.latency(o.Measure); v != none && float64(v) > o.Limit*1e6 {
			return false
		}
	}
	return true
}

// record is the sample in the form of the file.
func (s *sample) record(objectives []Objective) *Record {
	r := &Record{
		ID: s.id, Stage: s.stage, Dialect: s.dialect.name, Stream: s.stream, Target: int(s.target), Session: s.session, Turn: s.turn,
		ScheduledNS: s.scheduled, SentNS: some64(s.sent), FirstByteNS: some64(s.firstByte), FirstTokenNS: some64(s.firstToken),
		FirstVisibleNS: some64(s.firstVisible), LastTokenNS: some64(s.lastToken), EndNS: s.end, ConnectNS: some64(s.connect),
		Status: s.status, Error: s.err, Code: s.code, Faults: s.faults.names(), Left: s.left,
		InputWanted: s.inWanted, OutputWanted: s.outWanted, InputTokens: some(s.in), OutputTokens: some(s.out), CachedTokens: some(s.cached),
		InputSource: s.inSource, OutputSource: s.outSource, FinishReason: s.finish,
		Chunks: s.chunks, Coalesced: s.coalesced, BytesIn: s.bytes, GapsNS: s.gaps,
		Upstream: s.upstream, Attempts: some(s.attempts), QueueNS: some64(s.queue),
	}
	if s.audio > 0 {
		r.AudioSeconds = &s.audio
	}
	if slices.ContainsFunc(objectives, func(o Objective) bool { return o.Measure != "error_rate" }) {
		good := s.good(objectives)
		r.Good = &good
	}
	return r
}

func some64(v int64) *int64 {
	if v == none {
		return nil
	}
	return &v
}

func some(v int) *int {
	if v == none {
		return nil
	}
	return &v
}
