package client

import (
	"slices"
	"time"

	"penstock/bench/result"
)

// MissingValue marks a missing time or count.
const MissingValue = -1

// Sample contains the facts about one request. A Sample is small, because a run stores millions of
// them.
type Sample struct {
	ID, Stage, Turn int
	Pair            int // index of the pair with --compare-url, or MissingValue
	Target          uint8
	Dialect         *Dialect
	Stream          bool // the response was a stream
	Left            bool // the client disconnected on purpose

	At     timestamps
	Status int
	Err    string // one of the Err… constants of package result, or empty
	Code   string
	Finish string
	Faults faultSet
	Tokens tokenCounts
	Flow   tokenFlow
	Edge   edgeHeaderValues
	Audio  float64       // seconds of audio sent
	Retry  time.Duration // Retry-After value of a refusal, or 0
}

// timestamps are nanoseconds since the start of the run, or MissingValue.
type timestamps struct {
	Scheduled, Sent, firstByte, FirstToken, firstVisible, lastToken, End int64
	// how long connecting took
	Connect int64
}

// tokenCounts contains the requested and the actual token counts, and the sources of the actual
// counts.
type tokenCounts struct {
	inWanted, outWanted, In, Out, Cached int
	InSource, OutSource                  string
}

// tokenFlow describes how the tokens arrived.
type tokenFlow struct {
	// Coalesced counts token events that arrived in the same read as an earlier token event
	Chunks, Coalesced int
	bytes             int64
	Gaps              []int64 // set only if an output file contains a line per request
	gapSum            int64
}

// edgeHeaderValues contains the values of the edge's debug headers.
type edgeHeaderValues struct {
	Upstream string
	attempts int
	queue    int64
}

// NewSample returns the sample of a request that is due at scheduled.
func NewSample(q *Request, stage int, scheduled int64) Sample {
	s := Sample{
		ID: q.ID, Stage: stage, Turn: q.Turn, Pair: q.Pair, Target: uint8(q.Target), Dialect: q.D, Stream: q.Stream,
		Audio:  q.AudioS,
		At:     timestamps{MissingValue, MissingValue, MissingValue, MissingValue, MissingValue, MissingValue, MissingValue, MissingValue},
		Tokens: tokenCounts{inWanted: q.InWanted, outWanted: q.OutWanted, In: MissingValue, Out: MissingValue, Cached: MissingValue},
		Edge:   edgeHeaderValues{attempts: MissingValue, queue: MissingValue},
	}
	s.At.Scheduled = scheduled
	return s
}

// Completed reports whether the request got a complete response.
func (s *Sample) Completed() bool { return s.Err == "" && !s.Left }

// Failed reports whether the request failed. A request does not count as failed if it was aborted
// at the end of the run or if its client disconnected on purpose.
func (s *Sample) Failed() bool { return s.Err != "" && !s.Left && s.Err != result.ErrInterrupted }

// Latency returns a measure of the request in nanoseconds, or MissingValue. For ITL it returns the
// mean gap.
func (s *Sample) Latency(measure string) int64 {
	since := func(to, from int64) int64 {
		if to == MissingValue || from == MissingValue {
			return MissingValue
		}
		return to - from
	}
	switch measure {
	case result.TTFT:
		return since(s.At.FirstToken, s.At.Sent)
	case result.TTFV:
		return since(s.At.firstVisible, s.At.Sent)
	case result.TTFTFromSchedule:
		return since(s.At.FirstToken, s.At.Scheduled)
	case result.E2EL:
		return since(s.At.End, s.At.Sent)
	case result.E2ELFromSchedule:
		return since(s.At.End, s.At.Scheduled)
	case result.ScheduleDelay:
		return since(s.At.Sent, s.At.Scheduled)
	case result.Queue:
		return s.Edge.queue
	case result.Connect:
		return s.At.Connect
	case result.TPOT:
		// otherwise, all tokens arrived in one read
		if s.Tokens.Out > 1 && s.At.lastToken > s.At.FirstToken {
			return (s.At.lastToken - s.At.FirstToken) / int64(s.Tokens.Out-1)
		}
	case result.ITL:
		if n := s.Flow.Chunks - s.Flow.Coalesced - 1; n > 0 {
			return s.Flow.gapSum / int64(n)
		}
	}
	return MissingValue
}

// MeetsObjectives reports whether a request met all objectives. An objective whose measure does not
// exist for a completed request counts as met, as in vLLM's tool. For example, a response of one
// token has no TPOT.
func (s *Sample) MeetsObjectives(objectives []result.Objective) bool {
	if !s.Completed() {
		return false
	}
	for _, o := range objectives {
		if o.Measure == "error_rate" {
			continue
		}
		if v := s.Latency(o.Measure); v != MissingValue && float64(v) > o.Limit*1e6 {
			return false
		}
	}
	return true
}

// ToRecord returns the sample in the format of the result file.
func (s *Sample) ToRecord(objectives []result.Objective) *result.Record {
	r := &result.Record{
		ID: s.ID, Stage: s.Stage, Dialect: s.Dialect.Name, Stream: s.Stream, Target: int(s.Target), Session: s.ID,
		Turn:        s.Turn,
		ScheduledNS: s.At.Scheduled, SentNS: optionalInt64(s.At.Sent), FirstByteNS: optionalInt64(s.At.firstByte),
		FirstTokenNS:   optionalInt64(s.At.FirstToken),
		FirstVisibleNS: optionalInt64(s.At.firstVisible), LastTokenNS: optionalInt64(s.At.lastToken), EndNS: s.At.End,
		ConnectNS: optionalInt64(s.At.Connect),
		Status:    s.Status, Error: s.Err, Code: s.Code, Faults: s.Faults.Names(), Left: s.Left,
		InputWanted: s.Tokens.inWanted, OutputWanted: s.Tokens.outWanted, InputTokens: OptionalInt(s.Tokens.In),
		OutputTokens: OptionalInt(s.Tokens.Out), CachedTokens: OptionalInt(s.Tokens.Cached),
		InputSource: s.Tokens.InSource, OutputSource: s.Tokens.OutSource, FinishReason: s.Finish,
		Chunks: s.Flow.Chunks, Coalesced: s.Flow.Coalesced, BytesIn: s.Flow.bytes, GapsNS: s.Flow.Gaps,
		Upstream: s.Edge.Upstream, Attempts: OptionalInt(s.Edge.attempts), QueueNS: optionalInt64(s.Edge.queue),
	}
	if s.Audio > 0 {
		r.AudioSeconds = &s.Audio
	}
	if slices.ContainsFunc(objectives, func(o result.Objective) bool { return o.Measure != "error_rate" }) {
		r.Good = new(s.MeetsObjectives(objectives))
	}
	return r
}

func optionalInt64(v int64) *int64 {
	if v == MissingValue {
		return nil
	}
	return &v
}

// OptionalInt returns a pointer to a count, or nil if the count is MissingValue.
func OptionalInt(v int) *int {
	if v == MissingValue {
		return nil
	}
	return &v
}
