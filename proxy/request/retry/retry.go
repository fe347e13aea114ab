package retry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSends is the maximum number of times that a call is sent. It includes the first send, retries,
// changed requests, and sends to an engine with a longer context, a later tier or a fallback model.
const MaxSends = 4

// LongWork limits retries at other engines. If an engine has worked on a failed call for longer
// than this, the call is not retried, because the retry may take just as long.
const LongWork = 30 * time.Second

// Cause is the part of a failure's cause that determines the next step.
type Cause uint8

// These are the causes.
const (
	Final     Cause = iota // the client disconnected, a timeout expired, or the request is at fault
	Lost                   // the connection failed or was lost, or the engine sent a 502
	Full                   // the engine currently accepts no calls (429, 503 or 529)
	NotNow                 // the engine reports that it may be able to answer soon
	ModelGone              // the engine does not have the model or the endpoint, or answers 404 without a reason
	Failed                 // an internal failure of the engine (500 or 501)
	BadAnswer              // the response is invalid
	// All calls must leave the engine because its host vanished, or because it is down, stalled or
	// drained.
	Gone
	TooLong  // the prompt does not fit into the engine's context
	Doubtful // the engine may be at fault for a refusal
	causes
)

// String returns the text for the cause in the table in proxy/README.md.
func (c Cause) String() string {
	return [...]string{
		"anything else", "not reached, cut off, 502", "429, 503, 529", "\"not now\" in the engine's words",
		"no such model or endpoint, other 404s", "500, 501", "an answer that cannot be read", "host vanished, engine stalled or drained",
		"prompt too long", "a 4xx in doubt",
	}[c]
}

// Failure describes a failed attempt.
type Failure struct {
	Cause      Cause
	Elsewhere  bool          // whether another engine may answer after NotNow or Gone
	Changeable bool          // whether the engine may accept the request after a change
	Worked     time.Duration // time since the request was sent
}

// State describes a call after a failed attempt.
type State struct {
	Part      bool // whether the client has received part of the answer
	Complete  bool // whether the client has received everything except the end of the answer
	Resumable bool // whether another engine can continue the answer
	Spent     bool // whether the request cannot be sent again
	Form      bool // whether the request is a form, which rules out Repeat and Larger
	Strict    bool // whether the request must not be changed
	BodyFails bool

	Room     bool
	Longer   bool
	Below    bool
	NoBudget bool // the retry budget is empty

	Attempts int // configured maximum number of sends within a tier
	Sends    Sends
}

// Sends counts how many times a call was sent, by step.
type Sends struct {
	Retries int  // number of Repeat and Other steps
	Changes int  // number of Change steps
	Longer  int  // number of Larger steps
	Moves   int  // number of Move steps
	Below   int  // number of Below steps
	Resumes int  // number of Resume steps
	Again   bool // whether the last step was Repeat or Change
}

// All returns the number of sends that count against MaxSends.
func (s *Sends) All() int { return 1 + s.Retries + s.Changes + s.Longer + s.Below }

// Step is the next step of a call.
type Step uint8

// These are the steps.
const (
	Fail   Step = iota
	Repeat      // send to the same engine after a pause
	Change      // send a changed request to the same engine
	Other       // send to another engine
	Move        // send to another engine, once, regardless of the other limits
	Larger      // send to an engine with a longer context
	Below       // send to a later tier or a fallback model
	Resume      // let another engine continue the answer
	Finish      // let the edge end the answer
	steps
)

// String returns the text for the step in the table in proxy/README.md.
func (s Step) String() string {
	return [...]string{
		"fail", "same engine", "same engine, changed", "another engine", "moved", "longer context",
		"later tier or fallback", "another engine, resumed", "none, and ends well",
	}[s]
}

// Note counts one step.
func (s *Sends) Note(step Step) {
	switch step {
	case Repeat, Other:
		s.Retries++
	case Change:
		s.Changes++
	case Move:
		s.Moves++
	case Larger:
		s.Longer++
	case Below:
		s.Below++
	case Resume:
		s.Resumes++
	case Fail, Finish, steps:
	}
	s.Again = step == Repeat || step == Change
}

// Charged reports whether a step uses the retry budget. A step after ModelGone or Doubtful does not
// use it, because the first engine has done no work.
func Charged(step Step, f *Failure) bool {
	return step == Repeat || step == Other && f.Cause != ModelGone && f.Cause != Doubtful
}

type rule struct {
	step Step
	// If nil, the rule applies to all causes, provided that the client has received part of the
	// answer.
	causes []Cause
	when   string // text for the table in proxy/README.md
	fits   func(*State, *Failure) bool
}

// rules are tried in order. Decide uses them if the request can be sent again or the client has
// received part of the answer.
var rules = []rule{
	{Finish, nil, "where an engine that is lost had only the end left to send, and the model has retry.resume", func(s *State, _ *Failure) bool {
		return s.Complete
	}},
	{Resume, nil, "within the model's retry.resume, apart from the bounds on sends, where an engine that is lost can be continued", func(s *State, _ *Failure) bool {
		return s.Resumable
	}},
	{Repeat, []Cause{NotNow}, "once an engine, after 300 ms, within retry.attempts and retry.budget, where no other engine can take the call; no forms", func(s *State, f *Failure) bool {
		return !s.Sends.Again && !s.Form && s.retries() && !(f.Elsewhere && s.Room) && !s.NoBudget
	}},
	{Change, []Cause{NotNow, TooLong, Doubtful, Final}, "once a call: a lower token limit, without an effort's word, or with turns joined; never with strict", func(s *State, f *Failure) bool {
		return f.Changeable && !s.Strict && !s.Sends.Again && s.Sends.Changes+s.Sends.Longer == 0
	}},
	{Move, []Cause{Gone}, "once a call, unless retry.attempts is 1", func(s *State, _ *Failure) bool {
		return s.Sends.Moves == 0 && s.Attempts >= 2
	}},
	{Other, []Cause{Doubtful}, "after the first send, where another engine has room", func(s *State, _ *Failure) bool {
		return s.Sends.Retries+s.Sends.Moves+s.Sends.Longer+s.Sends.Below == 0 && s.Room
	}},
	{Other, []Cause{Lost, Full, BadAnswer, ModelGone}, "within retry.attempts and retry.budget, but for the budget where the model or endpoint is not there", func(s *State, f *Failure) bool {
		return s.retries() && (!s.NoBudget || f.Cause == ModelGone)
	}},
	{Other, []Cause{NotNow, Gone}, "within retry.attempts and retry.budget, where another engine may answer", func(s *State, f *Failure) bool {
		return f.Elsewhere && s.retries() && !s.NoBudget
	}},
	{Other, []Cause{Failed}, "within retry.attempts and retry.budget, if the request was not changed, the engine worked less than 30 s and has not failed at this body in the last minute", func(s *State, f *Failure) bool {
		return s.retries() && !s.NoBudget && s.Sends.Changes == 0 && f.Worked < LongWork && !s.BodyFails
	}},
	{Larger, []Cause{TooLong}, "once a call; never with strict; no forms", func(s *State, _ *Failure) bool {
		return s.Longer && s.Sends.Longer == 0 && !s.Strict && !s.Form
	}},
	{Below, []Cause{Lost, Full, BadAnswer, ModelGone, Failed}, "one later tier and one fallback model, apart from the budget", func(s *State, _ *Failure) bool {
		return s.Below && s.Sends.Below < 2
	}},
	{Below, []Cause{NotNow, Gone}, "likewise, where another engine may answer", func(s *State, f *Failure) bool {
		return f.Elsewhere && s.Below && s.Sends.Below < 2
	}},
}

func (s *State) retries() bool { return s.Sends.Retries < s.Attempts-1 }

// Decide returns the step to take after a failure. If the step uses the retry budget (Charged) and
// the budget is empty, the caller must set NoBudget and call Decide again.
func Decide(s *State, f *Failure) Step {
	if s.Spent && !s.Part {
		return Fail
	}
	for i := range rules {
		if r := &rules[i]; r.concerns(s, f) && r.fits(s, f) && (unbounded(r.step) || s.Sends.All() < MaxSends) {
			return r.step
		}
	}
	return Fail
}

// concerns reports whether the rule applies to this state and failure.
func (r *rule) concerns(s *State, f *Failure) bool {
	if s.Part {
		return r.causes == nil
	}
	return slices.Contains(r.causes, f.Cause)
}

// unbounded reports whether a step does not count against MaxSends.
func unbounded(s Step) bool { return s == Move || s == Resume || s == Finish }

// Table returns the rules as a Markdown table.
func Table() string {
	var b strings.Builder
	b.WriteString("| after | the call goes to | when |\n| --- | --- | --- |\n")
	for i := range rules {
		r := &rules[i]
		var causes []string
		for _, c := range r.causes {
			causes = append(causes, c.String())
		}
		after := cmp.Or(strings.Join(causes, ", "), "any failure, once a part of the answer was shown")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", after, r.step, r.when)
	}
	return b.String()
}
