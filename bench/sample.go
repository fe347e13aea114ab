package bench

import "slices"

// none marks a time or a count that did not come to be.
const none = -1

// sample is what is known of one request, in the form that a run keeps millions of.
type sample struct {
	id, stage, turn int
	pair            int // index of the pair with --compare-url; else none
	target          uint8
	dialect         *dialect
	stream          bool // and was answered so
	left            bool // the client left on purpose

	at     moments
	status int
	err    string // one of Kinds
	code   string
	finish string
	faults faultSet
	tokens tokenCounts
	flow   flow
	edge   edgeReport
	audio  float64 // seconds of sound sent
}

// moments are nanoseconds since the start of the run, or none.
type moments struct {
	scheduled, sent, firstByte, firstToken, firstVisible, lastToken, end int64
	connect                                                              int64 // a time, not a moment: that a new connection took
}

// tokenCounts are the lengths asked for and those that came, with where they are known from.
type tokenCounts struct {
	inWanted, outWanted, in, out, cached int
	inSource, outSource                  string
}

// flow is how the tokens came.
type flow struct {
	chunks, coalesced int // events with tokens; those that came in one read with an earlier one
	bytes             int64
	gaps              []int64 // only with --save-detailed
	gapSum            int64
}

// edgeReport is what an edge says of itself.
type edgeReport struct {
	upstream string
	attempts int
	queue    int64
}

// newSample is that of a request which is due at scheduled.
func newSample(q *request, stage int, scheduled int64) sample {
	s := sample{
		id: q.id, stage: stage, turn: q.turn, pair: q.pair, target: uint8(q.target), dialect: q.d, stream: q.stream, audio: q.audioS,
		at:     moments{none, none, none, none, none, none, none, none},
		tokens: tokenCounts{inWanted: q.inWanted, outWanted: q.outWanted, in: none, out: none, cached: none},
		edge:   edgeReport{attempts: none, queue: none},
	}
	s.at.scheduled = scheduled
	return s
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
		return since(s.at.firstToken, s.at.sent)
	case TTFV:
		return since(s.at.firstVisible, s.at.sent)
	case TTFTFromSchedule:
		return since(s.at.firstToken, s.at.scheduled)
	case E2EL:
		return since(s.at.end, s.at.sent)
	case E2ELFromSchedule:
		return since(s.at.end, s.at.scheduled)
	case ScheduleDelay:
		return since(s.at.sent, s.at.scheduled)
	case Queue:
		return s.edge.queue
	case Connect:
		return s.at.connect
	case TPOT:
		if s.tokens.out > 1 && s.at.lastToken > s.at.firstToken { // else all came in one read, and it cannot be told
			return (s.at.lastToken - s.at.firstToken) / int64(s.tokens.out-1)
		}
	case ITL:
		if n := s.flow.chunks - s.flow.coalesced - 1; n > 0 {
			return s.flow.gapSum / int64(n)
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
		ID: s.id, Stage: s.stage, Dialect: s.dialect.name, Stream: s.stream, Target: int(s.target), Session: s.id, Turn: s.turn,
		ScheduledNS: s.at.scheduled, SentNS: some64(s.at.sent), FirstByteNS: some64(s.at.firstByte), FirstTokenNS: some64(s.at.firstToken),
		FirstVisibleNS: some64(s.at.firstVisible), LastTokenNS: some64(s.at.lastToken), EndNS: s.at.end, ConnectNS: some64(s.at.connect),
		Status: s.status, Error: s.err, Code: s.code, Faults: s.faults.names(), Left: s.left,
		InputWanted: s.tokens.inWanted, OutputWanted: s.tokens.outWanted, InputTokens: some(s.tokens.in), OutputTokens: some(s.tokens.out), CachedTokens: some(s.tokens.cached),
		InputSource: s.tokens.inSource, OutputSource: s.tokens.outSource, FinishReason: s.finish,
		Chunks: s.flow.chunks, Coalesced: s.flow.coalesced, BytesIn: s.flow.bytes, GapsNS: s.flow.gaps,
		Upstream: s.edge.upstream, Attempts: some(s.edge.attempts), QueueNS: some64(s.edge.queue),
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
