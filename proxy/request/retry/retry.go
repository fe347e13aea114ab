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

// LongWork limits retries at another engine. If the engine has worked on a failed call for longer,
// the call is not retried, because the retry may take just as long.
const LongWork = 30 * time.Second

// Cause is the reason for a failure, reduced to what determines the next step.
type Cause uint8

// These are the causes.
const (
	Final     Cause = iota // the client disconnected, a timeout expired, or the request is at fault
	Lost                   // no connection, a lost connection, or a 502
	Full                   // the engine currently accepts no calls: 429, 503 or 529
	NotNow                 // the engine reports that it may be able to answer soon
	ModelGone              // the engine does not have the model or the endpoint
	Failed                 // an internal failure of the engine: 500 or 501
	BadAnswer              // the response is invalid
	Gone                   // all calls must leave the engine: its host has vanished, or it is down, stalled or drained
	TooLong                // the prompt does not fit into the engine's context
	Doubtful               // a refusal that may be the engine's fault
	causes
)

// String returns the text of the cause in the table of proxy/README.md.
func (c Cause) String() string {
	return [...]string{
		"anything else", "not reached, cut off, 502", "429, 503, 529", "\"not now\" in the engine's words",
		"no such model or endpoint", "500, 501", "an answer that cannot be read", "host vanished, engine stalled or drained",
		"prompt too long", "a 4xx in doubt",
	}[c]
}

// Failure describes a failed attempt.
type Failure struct {
	Cause      Cause
	Elsewhere  bool          // for NotNow and Gone: whether another engine may answer
	Changeable bool          // whether the engine may accept a changed request
	Worked     time.Duration // time since the request was sent
}

// State describes a call after a failed attempt.
type State struct {
	Part      bool // the client has received part of the answer
	Complete  bool // the client has received everything except the end of the answer
	Resumable bool // another engine can continue the answer
	Spent     bool // the request cannot be sent again
	Form      bool // the request is a form, which rules out Repeat and Larger
	Strict    bool // requests must not be changed
	BodyFails bool

	Room     bool
	Longer   bool
	Below    bool
	NoBudget bool

	Attempts int // configured number of sends within a tier
	Sends    Sends
}

// Sends counts how often a call was sent, by step.
type Sends struct {
	Retries int  // Repeat and Other
	Changes int  // Change
	Longer  int  // Larger
	Moves   int  // Move
	Below   int  // Below
	Resumes int  // Resume
	Again   bool // whether the last step was Repeat or Change
}

// All returns the number of sends that count against MaxSends.
func (s *Sends) All() int { return 1 + s.Retries + s.Changes + s.Longer + s.Below }

// Step is the next step of a call.
type Step uint8

// These are the steps.
const (
	Fail   Step = iota
	Repeat      // to the same engine after a pause
	Change      // to the same engine, changed
	Other       // to another engine
	Move        // to another engine, once, regardless of the other limits
	Larger      // to an engine with a longer context
	Below       // to a later tier or a fallback model
	Resume      // another engine continues the answer
	Finish      // the edge ends the answer
	steps
)

// String returns the text of the step in the table of proxy/README.md.
func (s Step) String() string {
	return [...]string{
		"fail", "same engine", "same engine, changed", "another engine", "moved", "longer context",
		"later tier or fallback", "another engine, resumed", "none, and ends well",
	}[s]
}

// Note counts a send.
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

// Charged reports whether a step uses the retry budget. A step after ModelGone or Doubtful does
// not, because the first engine has done no work.
func Charged(step Step, f *Failure) bool {
	return step == Repeat || step == Other && f.Cause != ModelGone && f.Cause != Doubtful
}

type rule struct {
	step   Step
	causes []Cause // nil: the rule applies to any cause after the client has received part of the answer
	when   string  // text for the table in proxy/README.md
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

// Decide returns the step after a failure. If the step is charged (Charged) and the budget is
// empty, the caller must set NoBudget and call Decide again.
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

// concerns reports whether the rule applies to this state and this cause.
func (r *rule) concerns(s *State, f *Failure) bool {
	if s.Part {
		return r.causes == nil
	}
	return slices.Contains(r.causes, f.Cause)
}

// unbounded reports whether a step is exempt from MaxSends.
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
