package result

// Kinds of request failures, in ErrorCount.Kind and Record.Error.
const (
	ErrConnect     = "connect"      // no connection
	ErrSend        = "send"         // the request could not be written
	ErrTimeout     = "timeout"      // --request-timeout passed
	ErrClosed      = "closed"       // the connection ended before the answer
	ErrHTTP        = "http"         // an answer that is not HTTP
	ErrStatus      = "status"       // a status other than 200
	ErrInStream    = "in_stream"    // an error event within a stream
	ErrStream      = "stream_fault" // the stream was wrong: see Record.Faults
	ErrBody        = "body"         // the body does not follow the dialect
	ErrInterrupted = "interrupted"  // the run was stopped
)

// Faults of streams: the keys of Summary.StreamFaults.
const (
	FaultNoEnd    = "no_end"     // ended without its dialect's end of a stream
	FaultNoDone   = "no_done"    // ended well, but without [DONE]; the request counts as completed
	FaultUnparsed = "unparsed"   // an event that is not valid JSON
	FaultAfterEnd = "after_end"  // content after the end
	FaultOrder    = "order"      // events in an order that the dialect forbids
	FaultLost     = "token_lost" // fewer text events than usage counts tokens, unlike other streams
	FaultNoUsage  = "no_usage"   // usage was requested but missing; the request counts as completed
	FaultToolJSON = "tool_json"  // arguments of a tool call that end as invalid JSON
	FaultEmpty    = "empty"      // ended well, without any token; the request counts as completed
)

// Faults lists the kinds of stream fault.
func Faults() []string {
	return []string{
		FaultNoEnd, FaultNoDone, FaultUnparsed, FaultAfterEnd, FaultOrder, FaultLost, FaultNoUsage,
		FaultToolJSON, FaultEmpty,
	}
}

// Record describes one request: a line of the JSONL file. Times are nanoseconds since the start of
// the run; null means that the event did not happen. It holds no text of prompt or reply.
type Record struct {
	ID      int    `json:"id"`      // in order of schedule, from 0
	Stage   int    `json:"stage"`   // index in Penstock.Stages; -1 in the warm-up
	Dialect string `json:"dialect"` // chat, messages, …
	Stream  bool   `json:"stream"`
	// Target is 0 for the base URL, 1 for --compare-url.
	Target int `json:"target"`
	// Session and Turn number the conversations of multi-turn workloads, from 0.
	Session int `json:"session"`
	Turn    int `json:"turn"`

	ScheduledNS    int64  `json:"scheduled_ns"`
	SentNS         *int64 `json:"sent_ns"`
	FirstByteNS    *int64 `json:"first_byte_ns"`
	FirstTokenNS   *int64 `json:"first_token_ns"` // of speech: the first byte of sound
	FirstVisibleNS *int64 `json:"first_visible_ns"`
	LastTokenNS    *int64 `json:"last_token_ns"`
	EndNS          int64  `json:"end_ns"`
	// ConnectNS is how long a new connection took; null when one was reused.
	ConnectNS *int64 `json:"connect_ns"`

	Status int `json:"status"` // 0: none
	// Error is one of Kinds, empty for none. Code is from the error object, cut to an identifier.
	Error  string   `json:"error"`
	Code   string   `json:"code"`
	Faults []string `json:"faults"`
	// Left is true when the client left on purpose; such a request is neither completed nor failed.
	Left bool `json:"left"`
	// Good is whether every objective of --goodput was met; null without objectives.
	Good *bool `json:"good"`

	// InputWanted and OutputWanted are the lengths that the workload requested, in tokens.
	InputWanted  int  `json:"input_wanted"`
	OutputWanted int  `json:"output_wanted"`
	InputTokens  *int `json:"input_tokens"`
	OutputTokens *int `json:"output_tokens"`
	CachedTokens *int `json:"cached_tokens"`
	// InputSource and OutputSource are the sources of the counts: usage or estimate; empty without
	// a count.
	InputSource  string `json:"input_source"`
	OutputSource string `json:"output_source"`
	FinishReason string `json:"finish_reason"`

	// Chunks counts events with tokens. Coalesced counts those that came in one read with an
	// earlier one.
	Chunks    int   `json:"chunks"`
	Coalesced int   `json:"coalesced"`
	BytesIn   int64 `json:"bytes_in"` // of the answer, head included
	// GapsNS are the gaps between reads with tokens. They are kept only for this file.
	GapsNS []int64 `json:"gaps_ns,omitempty"`

	// Upstream, Attempts and QueueNS are from the edge's headers (log.debug_headers); empty and
	// null without them.
	Upstream string `json:"upstream"`
	Attempts *int   `json:"attempts"`
	QueueNS  *int64 `json:"queue_ns"`
	// AudioSeconds is the length of the audio sent for transcription; null otherwise.
	AudioSeconds *float64 `json:"audio_s"`
}
