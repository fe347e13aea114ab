package fault

import (
	"time"

	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// Effects is how one exchange misbehaves; the zero value behaves. It is not changed after Parse.
type Effects struct {
	Accept Accept        // what becomes of a new connection
	Delay  time.Duration // before anything else
	Early  bool          // 413 before the body is read, then the end of the connection
	Linger bool          // Early: FIN, then whatever comes is read and discarded
	Take   []Step        // in place of the whole answer
	Hold   bool          // takes a slot and never answers
	Pages  bool          // hits pages, not inference, where no path is given
	Wedge  time.Duration // how long the whole engine stands still from this request on

	// Time without a byte.
	Prefill time.Duration // reading the prompt takes so long; 0: as usual
	Chunks  int           // of the prompt, each of which moves the counters

	// The answer's head and framing.
	Interim, InterimCode int
	Status               int
	Lines                []byte // further header lines
	Filler               []byte // header lines that come last
	Framing              Framing
	Long                 int // what LongLength adds
	DripHead, DripBody   time.Duration
	Gzip                 bool
	Surplus              []byte
	Second               time.Duration // within which a second reply follows the answer; 0: none
	Quit                 string        // keepalive-close: now, next, next-reset
	QuitDelay            time.Duration
	Piece                int // the body comes in pieces of at most so many bytes; 0: as it is written
	PieceGap             time.Duration

	// A plain answer's body.
	Plain  func(p *profile.Profile, body []byte) []byte
	Pad    int  // bytes of it at least, by a member of filler: errors too
	PadEnd bool // that member comes last

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
type Accept uint8

// What becomes of a connection.
const (
	AcceptNormally Accept = iota
	AcceptReset           // RST at once
	AcceptUnread          // held, with a small receive window, and never read
)

// Framing is how the end of an answer's body is told.
type Framing uint8

// The framings.
const (
	ByDefault   Framing = iota
	ByLength            // Content-Length
	ByChunks            // Transfer-Encoding: chunked
	ByClose             // FIN
	TwoLengths          // two that differ
	SameLengths         // two that agree
	TEAndLength         // both
	LongLength          // Content-Length that promises too much
)

// Usage is how the counts of tokens are told.
type Usage uint8

// The ways of telling usage.
const (
	UsageAsked Usage = iota
	UsageEvery
	UsageOnFinish
	UsageNever
	UsageUnasked
)

// Flip is an answer in the form that was not asked for.
type Flip uint8

// The forms.
const (
	FlipNone Flip = iota
	FlipStream
	FlipPlain
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

// Op is what a Step does.
type Op uint8

// The steps. Those that end the answer are said to.
const (
	OpSend      Op = iota // Text to the socket as it stands, outside of any framing; ends the answer
	OpFlush               // what was built goes out
	OpWait                // For
	OpReset               // RST; ends the answer
	OpClose               // FIN; ends the answer
	OpHang                // until the client leaves, with a comment each For unless that is 0; ends the answer
	OpForget              // the request's slot is free for others
	OpWork                // tokens are made for so long (For), and none is told
	OpReply               // a whole answer of Status, Type ("json": the engine's), Text; {url} in Lines filled in
	OpError               // an error of Status, Text and Type in the engine's shape
	OpNoContent           // 204
	OpHead                // the head of a JSON answer without a length
	OpBody                // Text into the body
	OpRepeat              // Text in the body's framing until the client leaves; ends the answer
	OpBomb                // N megabytes of zeros, compressed
	OpEvent               // Text as an event
	OpContent             // an event that says N letters
	OpStreamEnd           // an error event of Status and Text, then [DONE] if N is 1 (0: not; below: as the engine does)
	OpFinish              // the regular end of the answer
)

// at adds an incident that ends the answer.
func (e *Effects) at(n int, steps ...Step) {
	e.Incidents = append(e.Incidents, Incident{At: n, Steps: steps})
}

// inStream adds an incident for streams only.
func (e *Effects) inStream(n int, goOn bool, steps ...Step) {
	e.Incidents = append(e.Incidents, Incident{At: n, StreamOnly: true, GoOn: goOn, Steps: steps})
}
