package retry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSends is the maximum number of times that a call is sent. It includes the first send, retries
// after a failure, a changed request to the engine that refused the call, and sends to a longer
// context, a later tier or a fallback model.
const MaxSends = 4

// LongWork is the maximum time that an engine may have worked on a failed call if the call is to be
// retried at another engine. After longer work, the retry could take just as long.
const LongWork = 30 * time.Second

// Cause is the reason for an attempt's failure, reduced to what the next step depends on.
type Cause uint8

// The causes.
const (
	Final     Cause = iota // the call ended, or would fail anywhere: the client left, a timeout, a fault in the request
	Lost                   // no answer and no work that counts: not reached, cut off, a 502
	Full                   // the engine accepts no call now: 429, 503, 529
	NotNow                 // the engine says that it may answer in a moment
	ModelGone              // the engine lacks the model or the endpoint, so it has done no work
	Failed                 // the engine reports a failure of its own: 500 or 501
	BadAnswer              // the answer cannot be read
	Gone                   // all calls must leave the engine: its host vanished, or it is down, stalled or drained
	TooLong                // the engine's context has no room for the prompt
	Doubtful               // a refusal that may be the engine's fault and not the client's
	causes
)

// String returns the cause's word in the table of proxy/README.md.
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
	Elsewhere  bool          // for NotNow and Gone: another engine may answer instead
	Changeable bool          // the engine may accept the request in another form
	Worked     time.Duration // since the request was sent
}

// State describes a call after one of its attempts has failed.
type State struct {
	Part      bool // the client has some of the answer
	Complete  bool // only the end of the answer is missing
	Resumable bool // another engine may continue the answer
	Spent     bool // the request cannot be sent again
	Form      bool // the request is a form, which is neither repeated nor sent to a longer context
	Strict    bool // requests must not be changed
	BodyFails bool // the same body has recently failed at engines

	Room     bool // another engine has room for the call
	Longer   bool // another engine has room for the prompt
	Below    bool // a later tier or a fallback model may take the call
	NoBudget bool // the retry budget is empty

	Attempts int // how often a call may be sent in its tier, as configured
	Sends    Sends
}

// Sends counts how often a call was sent, by the step that led to each send.
type Sends struct {
	Retries int  // to the same engine or another one after a failure
	Changes int  // in another form
	Longer  int  // to an engine with a longer context
	Moves   int  // away from an engine that all its calls must leave
	Below   int  // to a later tier or a fallback model
	Resumes int  // to continue an answer
	Again   bool // the last engine got the call a second time
}

// All returns the number of sends that count towards MaxSends.
func (s *Sends) All() int { return 1 + s.Retries + s.Changes + s.Longer + s.Below }

// Step is what a call does next.
type Step uint8

// The steps.
const (
	Fail   Step = iota // the call ends with the failure
	Repeat             // to the same engine, after a pause
	Change             // to the same engine, in another form
	Other              // to another engine
	Move               // to another engine, once per call, regardless of the other limits
	Larger             // to an engine with a longer context
	Below              // to a later tier or a fallback model
	Resume             // another engine continues the answer
	Finish             // the edge completes the answer
	steps
)

// String returns the step's word in the table of proxy/README.md.
func (s Step) String() string {
	return [...]string{
		"fail", "same engine", "same engine, changed", "another engine", "moved", "longer context",
		"later tier or fallback", "another engine, resumed", "none, and ends well",
	}[s]
}

// Note counts the send that follows a step.
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

// Charged reports whether a send is charged to the retry budget of all calls. An engine that lacks
// the model, or whose refusal is in doubt, has done no work, so a send to another engine adds no
// work.
func Charged(step Step, f *Failure) bool {
	return step == Repeat || step == Other && f.Cause != ModelGone && f.Cause != Doubtful
}

// rule is one row of the table.
type rule struct {
	step   Step
	causes []Cause // nil: any cause, once the client has some of the answer
	when   string  // for human readers
	fits   func(*State, *Failure) bool
}

// rules are in order: the first rule that applies decides. Decide consults them only if the call
// still holds its request, or the client has some of the answer.
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

// retries reports whether the call has a retry left.
func (s *State) retries() bool { return s.Sends.Retries < s.Attempts-1 }

// Decide returns what a call does after a failure. If the step is charged (Charged) and the budget
// is empty, the caller must set NoBudget and call Decide again.
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

// concerns reports whether the rule applies to a call in this state, after this failure.
func (r *rule) concerns(s *State, f *Failure) bool {
	if s.Part {
		return r.causes == nil
	}
	return slices.Contains(r.causes, f.Cause)
}

// unbounded reports whether a step is allowed even after MaxSends sends.
func unbounded(s Step) bool { return s == Move || s == Resume || s == Finish }

// Table returns the rules as a Markdown table for human readers.
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
