package fault

import (
	"cmp"
	"time"

	"penstock/bench/sim/wire"
)

// Effects describes the faults in one exchange. The zero value has no effects. Effects do not
// change after Parse.
type Effects struct {
	Accept           Accept        // treatment of a new connection
	Delay            time.Duration // delay before the request is processed
	Early            bool          // send 413 before the body is read, and then close the connection
	Linger           bool          // if Early is set: discard all bytes that arrive after the FIN
	ReplacementSteps []Step        // replaces the whole response
	Hold             bool          // whether to occupy a slot and never respond
	Pages            bool          // if the fault has no path, it affects pages instead of inference
	AwaitIdle        bool          // answer pages only while no request runs
	Wedge            time.Duration // how long the whole engine stalls after this request

	// Fields that delay the first byte.
	Prefill time.Duration // duration of the prefill; 0 means the usual duration
	Chunks  int           // number of chunks of the prompt; each one advances the counters

	// Fields that affect the head and the framing.
	Interim, InterimCode int
	Status               int
	Lines                string // additional header lines
	Filler               int    // size of additional header lines at the end of the head, in bytes
	OneFiller            bool   // put the filler in one line
	Framing              Framing
	// number of bytes by which the Content-Length of FramingLongLength is too large
	Long               int
	DripHead, DripBody time.Duration
	Gzip               bool
	Surplus            string
	// a second response follows after at most this time; 0 means no second response
	Second    time.Duration
	Quit      string // keepalive-close: now, next or next-reset
	QuitDelay time.Duration
	Piece     int // maximum size of a piece of the body; 0 means no limit
	PieceGap  time.Duration

	// Fields that affect the body of an unstreamed response.
	Plain  *Step // OpBody, OpHalfBody or OpError, which replaces the body
	Pad    int   // minimum size of the body, including error bodies, reached with a filler member
	PadEnd bool  // the filler is the last member

	// Fields that affect a stream.
	Form       wire.EventFormat
	Incidents  []Incident
	NoDone     bool
	NoFinish   bool
	Ghost      bool // if NoFinish is set: send one more chunk without model and text, like Ollama
	Flip       WrongFormat
	StreamType string // Content-Type of a stream; if empty, the engine's
	Usage      UsageChunks
	Finish     string
	MinCalls   int
	Interwove  bool
	WholeCalls bool
	SplitNames bool
	BadArgs    bool
}

// Accept determines how a connection is treated before its first request.
type Accept string

// Values of Accept.
const (
	AcceptNormally Accept = ""
	AcceptReset    Accept = "reset"  // immediate RST
	AcceptUnread   Accept = "unread" // stays open with a small receive window and is never read
)

// Framing determines how the end of a response body is marked.
type Framing string

// Values of Framing.
const (
	FramingDefault     Framing = ""
	FramingLength      Framing = "length"        // Content-Length
	FramingChunks      Framing = "chunks"        // Transfer-Encoding: chunked
	FramingClose       Framing = "close"         // FIN
	FramingTwoLengths  Framing = "two-lengths"   // two different Content-Lengths
	FramingSameLengths Framing = "same-lengths"  // two equal Content-Lengths
	FramingTEAndLength Framing = "te-and-length" // Content-Length and chunks
	FramingLongLength  Framing = "long-length"   // a Content-Length that is too large
)

// UsageChunks determines which chunks contain token counts.
type UsageChunks string

// Values of Usage.
const (
	UsageIfRequested UsageChunks = ""
	UsageEveryChunk  UsageChunks = "every"
	UsageOnFinish    UsageChunks = "on-finish"
	UsageNever       UsageChunks = "never"
	UsageUnrequested UsageChunks = "unasked"
)

// WrongFormat is a response in a format that was not requested.
type WrongFormat string

// Values of Flip.
const (
	WrongFormatNone   WrongFormat = ""
	WrongFormatStream WrongFormat = "stream"
	WrongFormatPlain  WrongFormat = "plain"
)

// Incident is a fault that occurs before event number At + 1 of a stream, or in the middle of an
// unstreamed body.
type Incident struct {
	At         int
	StreamOnly bool
	GoOn       bool // continue the response after the fault
	Steps      []Step
}

// Step is one action on a response or its connection.
type Step struct {
	Op     Op
	Text   string // bytes, a body or a message
	Type   string // Content-Type of OpReply, or error type of OpError
	Status int
	N      int
	For    time.Duration
}

// Message returns the error text. If Text is empty, this is the usual text for Status.
func (s *Step) Message() string { return cmp.Or(s.Text, StatusText(s.Status)) }

// Op is the action of a Step.
type Op string

// Actions of a Step. Some actions end the response.
const (
	OpSendRawAndEnd Op = "send"  // write Text to the socket without framing; ends the response
	OpFlush         Op = "flush" // send the buffered bytes
	OpWait          Op = "wait"  // wait for the duration For
	OpReset         Op = "reset" // RST; ends the response
	OpClose         Op = "close" // FIN; ends the response
	// hang until the client leaves; if For is not 0, send a comment at this interval; ends the
	// response
	OpHang             Op = "hang"
	OpFreeSlot         Op = "forget" // free the request's slot
	OpGenerateSilently Op = "work"   // generate tokens for the duration For without sending them
	// a complete response with Status, Type ("json": the engine's type for JSON) and Text; {url} in
	// Lines is replaced with the engine's URL
	OpReply Op = "reply"
	// an error in the engine's format with Status, Text and Type; if Text is empty, the usual
	// message for Status
	OpError     Op = "error"
	OpPage      Op = "page"       // an HTML page with Status that contains a host name
	OpHalfBody  Op = "half"       // the first half of the body
	OpNoContent Op = "no-content" // 204
	OpHead      Op = "head"       // the head of a JSON response whose length is unknown
	OpBody      Op = "body"       // Text as part of the body
	// Text N times, framed like the body, until the client leaves; ends the response
	OpRepeat  Op = "repeat"
	OpZipBomb Op = "bomb"    // N megabytes of zeros, compressed
	OpEvent   Op = "event"   // Text as an event, N times or once
	OpContent Op = "content" // an event with N letters of content
	// an error event, followed by [DONE] if N is 1 (0: no [DONE]; negative: as in the engine)
	OpStreamEnd Op = "stream-end"
	OpFinish    Op = "finish" // the regular end of the response
)
