package result

// Kinds of request failures, in ErrorCount.Kind and Record.Error.
const (
	ErrConnect     = "connect"      // no connection
	ErrSend        = "send"         // the request could not be written
	ErrTimeout     = "timeout"      // --request-timeout expired
	ErrClosed      = "closed"       // the connection closed before the response
	ErrHTTP        = "http"         // the response is not HTTP
	ErrStatus      = "status"       // a status other than 200
	ErrInStream    = "in_stream"    // an error event within a stream
	ErrStream      = "stream_fault" // the stream was invalid: see Record.Faults
	ErrBody        = "body"         // the body does not have the dialect's format
	ErrInterrupted = "interrupted"  // the run was interrupted
)

// Faults of streams: the keys of Summary.StreamFaults.
const (
	FaultNoEnd    = "no_end"     // the dialect's end event is missing
	FaultNoDone   = "no_done"    // no [DONE]; the request counts as completed
	FaultUnparsed = "unparsed"   // an event that is not valid JSON
	FaultAfterEnd = "after_end"  // content after the end
	FaultOrder    = "order"      // events in an order that the dialect forbids
	FaultLost     = "token_lost" // fewer text events than tokens in the usage, unlike other streams
	FaultNoUsage  = "no_usage"   // usage was requested but is missing; the request counts as completed
	FaultToolJSON = "tool_json"  // tool call arguments that are not valid JSON
	FaultEmpty    = "empty"      // no tokens; the request counts as completed
)

// StreamFaults returns all stream faults.
func StreamFaults() []string {
	return []string{
		FaultNoEnd, FaultNoDone, FaultUnparsed, FaultAfterEnd, FaultOrder, FaultLost, FaultNoUsage,
		FaultToolJSON, FaultEmpty,
	}
}

// Record describes one request. It is a line in the JSONL file. Times are nanoseconds since the
// start of the run, or null if the event did not happen. It contains no text from the prompt or the
// response.
type Record struct {
	ID      int    `json:"id"`      // position in the schedule, counting from 0
	Stage   int    `json:"stage"`   // index in Penstock.Stages; -1 in the warm-up
	Dialect string `json:"dialect"` // chat, messages, …
	Stream  bool   `json:"stream"`
	// Target is 0 for the base URL, and 1 for --compare-url.
	Target int `json:"target"`
	// Session is the number of the conversation in a multi-turn workload, and Turn is the number of
	// the turn within it. Both count from 0.
	Session int `json:"session"`
	Turn    int `json:"turn"`

	ScheduledNS    int64  `json:"scheduled_ns"`
	SentNS         *int64 `json:"sent_ns"`
	FirstByteNS    *int64 `json:"first_byte_ns"`
	FirstTokenNS   *int64 `json:"first_token_ns"` // for speech, the first byte of audio
	FirstVisibleNS *int64 `json:"first_visible_ns"`
	LastTokenNS    *int64 `json:"last_token_ns"`
	EndNS          int64  `json:"end_ns"`
	// ConnectNS is the duration of the connect, or null if a connection was reused.
	ConnectNS *int64 `json:"connect_ns"`

	Status int `json:"status"` // 0 if there was no response
	// Error is one of the kinds, or empty. Code is taken from the error object and sanitized to an
	// identifier.
	Error  string   `json:"error"`
	Code   string   `json:"code"`
	Faults []string `json:"faults"`
	// Left is true if the client left on purpose. Such a request is neither completed nor failed.
	Left bool `json:"left"`
	// Good reports whether the request met all objectives of --goodput. It is null if there are no
	// objectives.
	Good *bool `json:"good"`

	// InputWanted and OutputWanted are the requested lengths in tokens.
	InputWanted  int  `json:"input_wanted"`
	OutputWanted int  `json:"output_wanted"`
	InputTokens  *int `json:"input_tokens"`
	OutputTokens *int `json:"output_tokens"`
	CachedTokens *int `json:"cached_tokens"`
	// InputSource and OutputSource are the sources of the token counts: usage or estimate. They are
	// empty if there is no count.
	InputSource  string `json:"input_source"`
	OutputSource string `json:"output_source"`
	FinishReason string `json:"finish_reason"`

	// Chunks counts events with tokens. Coalesced counts those that arrived in the same read as an
	// earlier one.
	Chunks    int   `json:"chunks"`
	Coalesced int   `json:"coalesced"`
	BytesIn   int64 `json:"bytes_in"` // bytes of the response, including the head
	// GapsNS are the gaps between reads that returned tokens. Only the JSONL file contains them.
	GapsNS []int64 `json:"gaps_ns,omitempty"`

	// Upstream, Attempts and QueueNS come from the edge's headers (log.debug_headers). They are
	// empty or null if there are no such headers.
	Upstream string `json:"upstream"`
	Attempts *int   `json:"attempts"`
	QueueNS  *int64 `json:"queue_ns"`
	// AudioSeconds is the length of the audio sent for transcription, or null.
	AudioSeconds *float64 `json:"audio_s"`
}
