package fault

import (
	"cmp"
	"time"

	"penstock/bench/sim/wire"
)

// Effects is how one exchange misbehaves; the zero value behaves. It is not changed after Parse.
type Effects struct {
	Accept    Accept        // what becomes of a new connection
	Delay     time.Duration // before anything else
	Early     bool          // 413 before the body is read, then the end of the connection
	Linger    bool          // Early: FIN, then whatever comes is read and discarded
	Take      []Step        // in place of the whole answer
	Hold      bool          // takes a slot and never answers
	Pages     bool          // hits pages, not inference, where no path is given
	AwaitIdle bool          // pages are not answered while a request runs
	Wedge     time.Duration // how long the whole engine stands still from this request on

	// Time without a byte.
	Prefill time.Duration // reading the prompt takes so long; 0: as usual
	Chunks  int           // of the prompt, each of which moves the counters

	// The answer's head and framing.
	Interim, InterimCode int
	Status               int
	Lines                string // further header lines
	Filler               int    // bytes of header lines that come last
	OneFiller            bool   // they are one line
	Framing              Framing
	Long                 int // what LongLength adds
	DripHead, DripBody   time.Duration
	Gzip                 bool
	Surplus              string
	Second               time.Duration // within which a second reply follows the answer; 0: none
	Quit                 string        // keepalive-close: now, next, next-reset
	QuitDelay            time.Duration
	Piece                int // the body comes in pieces of at most so many bytes; 0: as it is written
	PieceGap             time.Duration

	// A plain answer's body.
	Plain  *Step // OpBody, OpHalf or OpError in the place of it
	Pad    int   // bytes of it at least, by a member of filler: errors too
	PadEnd bool  // that member comes last

	// A stream.
	Form       wire.EventFormat
	Incidents  []Incident
	NoDone     bool
	NoFinish   bool
	Ghost      bool // NoFinish as Ollama does it: one more chunk with no model and no text
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

// Accept is what becomes of a connection before there is a request.
type Accept string

// What becomes of a connection.
const (
	AcceptNormally Accept = ""
	AcceptReset    Accept = "reset"  // RST at once
	AcceptUnread   Accept = "unread" // held, with a small receive window, and never read
)

// Framing is how the end of an answer's body is told.
type Framing string

// The framings.
const (
	ByDefault   Framing = ""
	ByLength    Framing = "length"        // Content-Length
	ByChunks    Framing = "chunks"        // Transfer-Encoding: chunked
	ByClose     Framing = "close"         // FIN
	TwoLengths  Framing = "two-lengths"   // two that differ
	SameLengths Framing = "same-lengths"  // two that agree
	TEAndLength Framing = "te-and-length" // both
	LongLength  Framing = "long-length"   // Content-Length that promises too much
)

// Usage is how the counts of tokens are told.
type Usage string

// The ways of telling usage.
const (
	UsageAsked    Usage = ""
	UsageEvery    Usage = "every"
	UsageOnFinish Usage = "on-finish"
	UsageNever    Usage = "never"
	UsageUnasked  Usage = "unasked"
)

// Flip is an answer in the form that was not asked for.
type Flip string

// The forms.
const (
	FlipNone   Flip = ""
	FlipStream Flip = "stream"
	FlipPlain  Flip = "plain"
)

// Incident is something that happens before the event after the At-th, or in the middle of a plain
// body.
type Incident struct {
	At         int
	StreamOnly bool
	GoOn       bool // the answer goes on after it
	Steps      []Step
}

// Step is one thing that is done with an answer or its connection.
type Step struct {
	Op     Op
	Text   string // bytes, a body, a message
	Type   string // Content-Type of OpReply; type of OpError
	Status int
	N      int
	For    time.Duration
}

// Message is what an error says.
func (s *Step) Message() string { return cmp.Or(s.Text, StatusText(s.Status)) }

// Op is what a Step does.
type Op string

// The steps. Those that end the answer are said to.
const (
	OpSend      Op = "send"       // Text to the socket as it stands, outside of any framing; ends the answer
	OpFlush     Op = "flush"      // what was built goes out
	OpWait      Op = "wait"       // For
	OpReset     Op = "reset"      // RST; ends the answer
	OpClose     Op = "close"      // FIN; ends the answer
	OpHang      Op = "hang"       // until the client leaves, with a comment each For unless that is 0; ends the answer
	OpForget    Op = "forget"     // the request's slot is free for others
	OpWork      Op = "work"       // tokens are made for so long (For), and none is told
	OpReply     Op = "reply"      // a whole answer of Status, Type ("json": the engine's), Text; {url} in Lines filled in
	OpError     Op = "error"      // an error of Status, Text and Type in the engine's shape; without Text its usual one
	OpPage      Op = "page"       // an HTML page of Status that names a host
	OpHalf      Op = "half"       // the first half of the body
	OpNoContent Op = "no-content" // 204
	OpHead      Op = "head"       // the head of a JSON answer without a length
	OpBody      Op = "body"       // Text into the body
	OpRepeat    Op = "repeat"     // N times Text in the body's framing, until the client leaves; ends the answer
	OpBomb      Op = "bomb"       // N megabytes of zeros, compressed
	OpEvent     Op = "event"      // Text as an event, N times or once
	OpContent   Op = "content"    // an event that says N letters
	OpStreamEnd Op = "stream-end" // an error event, then [DONE] if N is 1 (0: not; below: as the engine does)
	OpFinish    Op = "finish"     // the regular end of the answer
)
