package fault

import (
	"cmp"
	"time"

	"penstock/bench/sim/wire"
)

// Effects describes how one exchange misbehaves. With the zero value it does not misbehave. It does
// not change after Parse.
type Effects struct {
	Accept    Accept        // treatment of a new connection
	Delay     time.Duration // before anything else
	Early     bool          // 413 before the body is read, then the connection ends
	Linger    bool          // Early: after the FIN, all further bytes are read and discarded
	Take      []Step        // replaces the whole answer
	Hold      bool          // takes a slot and never answers
	Pages     bool          // without a path, affects pages instead of inference
	AwaitIdle bool          // pages are not answered while a request runs
	Wedge     time.Duration // time for which the whole engine stalls after this request

	// The following are times without a byte.
	Prefill time.Duration // duration of reading the prompt; 0: the usual
	Chunks  int           // chunks of the prompt, each of which advances the counters

	// The following concern the answer's head and framing.
	Interim, InterimCode int
	Status               int
	Lines                string // further header lines
	Filler               int    // bytes of header lines that come last
	OneFiller            bool   // in one line
	Framing              Framing
	Long                 int // bytes that LongLength adds
	DripHead, DripBody   time.Duration
	Gzip                 bool
	Surplus              string
	Second               time.Duration // a second reply follows the answer within this time; 0: no reply
	Quit                 string        // keepalive-close: now, next, next-reset
	QuitDelay            time.Duration
	Piece                int // largest piece in which the body is sent; 0: as written
	PieceGap             time.Duration

	// The following concern an unstreamed answer's body.
	Plain  *Step // OpBody, OpHalf or OpError, which replaces it
	Pad    int   // minimum size of the body, reached with a filler member; also for errors
	PadEnd bool  // the filler is the last member

	// The following concern a stream.
	Form       wire.EventFormat
	Incidents  []Incident
	NoDone     bool
	NoFinish   bool
	Ghost      bool // NoFinish as in Ollama: one more chunk with no model and no text
	Flip       Flip
	StreamType string // Content-Type of a stream; empty: the engine's
	Usage      Usage
	Finish     string
	MinCalls   int
	Interwove  bool
	WholeCalls bool
	SplitNames bool
	BadArgs    bool
}

// Accept is the treatment of a connection before its first request.
type Accept string

// The treatments of a connection.
const (
	AcceptNormally Accept = ""
	AcceptReset    Accept = "reset"  // RST at once
	AcceptUnread   Accept = "unread" // held, with a small receive window, and never read
)

// Framing is the way in which the end of an answer's body is indicated.
type Framing string

// The framings.
const (
	ByDefault   Framing = ""
	ByLength    Framing = "length"        // Content-Length
	ByChunks    Framing = "chunks"        // Transfer-Encoding: chunked
	ByClose     Framing = "close"         // FIN
	TwoLengths  Framing = "two-lengths"   // two different lengths
	SameLengths Framing = "same-lengths"  // two equal lengths
	TEAndLength Framing = "te-and-length" // a length and chunks
	LongLength  Framing = "long-length"   // a Content-Length that is too large
)

// Usage is the way in which token counts are reported.
type Usage string

// The ways of reporting usage.
const (
	UsageAsked    Usage = ""
	UsageEvery    Usage = "every"
	UsageOnFinish Usage = "on-finish"
	UsageNever    Usage = "never"
	UsageUnasked  Usage = "unasked"
)

// Flip is an answer in a format that was not requested.
type Flip string

// The formats.
const (
	FlipNone   Flip = ""
	FlipStream Flip = "stream"
	FlipPlain  Flip = "plain"
)

// Incident happens before event At + 1, or in the middle of an unstreamed body.
type Incident struct {
	At         int
	StreamOnly bool
	GoOn       bool // the answer continues afterwards
	Steps      []Step
}

// Step is one action on an answer or its connection.
type Step struct {
	Op     Op
	Text   string // bytes, a body, a message
	Type   string // Content-Type of OpReply; type of OpError
	Status int
	N      int
	For    time.Duration
}

// Message returns the text of an error.
func (s *Step) Message() string { return cmp.Or(s.Text, StatusText(s.Status)) }

// Op is the action of a Step.
type Op string

// The actions of a Step. Some of them end the answer.
const (
	OpSend      Op = "send"       // Text to the socket, without framing; ends the answer
	OpFlush     Op = "flush"      // sends the bytes built so far
	OpWait      Op = "wait"       // waits for For
	OpReset     Op = "reset"      // RST; ends the answer
	OpClose     Op = "close"      // FIN; ends the answer
	OpHang      Op = "hang"       // until the client leaves, with a comment every For unless that is 0; ends the answer
	OpForget    Op = "forget"     // frees the request's slot for others
	OpWork      Op = "work"       // generates tokens for For, and sends none
	OpReply     Op = "reply"      // a whole answer of Status, Type ("json": the engine's), Text; {url} in Lines filled in
	OpError     Op = "error"      // an error of Status, Text and Type in the engine's form; without Text, its usual one
	OpPage      Op = "page"       // an HTML page of Status that names a host
	OpHalf      Op = "half"       // the first half of the body
	OpNoContent Op = "no-content" // 204
	OpHead      Op = "head"       // the head of a JSON answer of unknown length
	OpBody      Op = "body"       // Text as part of the body
	OpRepeat    Op = "repeat"     // N times Text in the body's framing, until the client leaves; ends the answer
	OpBomb      Op = "bomb"       // N megabytes of zeros, compressed
	OpEvent     Op = "event"      // Text as an event, N times or once
	OpContent   Op = "content"    // an event with N letters of content
	OpStreamEnd Op = "stream-end" // an error event, then [DONE] if N is 1 (0: no; negative: like the engine)
	OpFinish    Op = "finish"     // the regular end of the answer
)
