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

// MaxRetriedWorkDuration limits retries on other engines. If an engine has worked on a failed call for
// longer than MaxRetriedWorkDuration, the call is not retried. The retry might take just as long.
const MaxRetriedWorkDuration = 30 * time.Second

// Cause is the part of a failure's cause that determines the next step.
type Cause uint8

// These are the causes.
const (
	CauseFinal          Cause = iota // the client disconnected, a timeout expired, or the request is at fault
	CauseConnectionLost              // the connection failed or was lost, or the engine sent a 502
	CauseEngineFull                  // the engine currently accepts no calls (429, 503 or 529)
	CauseNotNow                      // the engine reports that it may be able to answer soon
	// The engine does not have the model or the endpoint, or answers 404 without a reason.
	CauseModelGone
	CauseEngineFailed // an internal failure of the engine (500 or 501)
	CauseBadAnswer    // the response is invalid
	// All calls must leave the engine because its host vanished, or because it is down, stalled or
	// drained.
	CauseMustLeaveEngine
	CausePromptTooLong     // the prompt does not fit into the engine's context
	CauseDoubtfulRejection // the engine may be at fault for a refusal
	causeCount
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
	Elsewhere  bool          // whether another engine may answer after CauseNotNow or CauseMustLeaveEngine
	Changeable bool          // whether the engine may accept the request after a change
	Worked     time.Duration // time since the request was sent
}

// CallState describes a call after a failed attempt.
type CallState struct {
	HasPartialAnswer bool // whether the client has received part of the answer
	Complete         bool // whether the client has received everything except the end of the answer
	Resumable        bool // whether another engine can continue the answer
	CannotResend     bool // whether the request cannot be sent again
	Form             bool // whether the request is a form, which rules out StepSameEngine and StepLongerContext
	Strict           bool // whether the request must not be changed
	BodyFails        bool

	Room     bool
	Longer   bool
	Below    bool
	NoBudget bool // whether the retry budget is empty

	Attempts int // configured maximum number of sends within a tier
	Sends    SendCounts
}

// SendCounts counts the steps that have sent a call.
type SendCounts struct {
	Retries           uint8 // number of StepSameEngine and StepOtherEngine steps
	Changes           uint8 // number of StepChangeRequest steps
	Longer            uint8 // number of StepLongerContext steps
	Moves             uint8 // number of StepMove steps
	LaterTiers        uint8 // number of StepLaterTier steps
	Resumes           uint8 // number of StepResume steps
	LastWasSameEngine bool  // whether the last step was StepSameEngine or StepChangeRequest
}

// CountedTotal returns the number of sends that count against MaxSends.
func (s *SendCounts) CountedTotal() int {
	return 1 + int(s.Retries) + int(s.Changes) + int(s.Longer) + int(s.LaterTiers)
}

// Step is the next step of a call.
type Step uint8

// These are the steps.
const (
	StepFail          Step = iota
	StepSameEngine         // send to the same engine after a pause
	StepChangeRequest      // send a changed request to the same engine
	StepOtherEngine        // send to another engine
	StepMove               // send to another engine once, regardless of the other limits
	StepLongerContext      // send to an engine with a longer context
	StepLaterTier          // send to a later tier or a fallback model
	StepResume             // let another engine continue the answer
	StepFinish             // let the edge end the answer
	stepCount
)

// String returns the text for the step in the table in proxy/README.md.
func (s Step) String() string {
	return [...]string{
		"fail", "same engine", "same engine, changed", "another engine", "moved", "longer context",
		"later tier or fallback", "another engine, resumed", "none, and ends well",
	}[s]
}

// CountStep counts one step.
func (s *SendCounts) CountStep(step Step) {
	switch step {
	case StepSameEngine, StepOtherEngine:
		s.Retries++
	case StepChangeRequest:
		s.Changes++
	case StepMove:
		s.Moves++
	case StepLongerContext:
		s.Longer++
	case StepLaterTier:
		s.LaterTiers++
	case StepResume:
		s.Resumes++
	case StepFail, StepFinish, stepCount:
	}
	s.LastWasSameEngine = step == StepSameEngine || step == StepChangeRequest
}

// UsesRetryBudget reports whether a step uses the retry budget. A StepOtherEngine after
// CauseModelGone or CauseDoubtfulRejection does not use it, because the first engine has done no work.
func UsesRetryBudget(step Step, f *Failure) bool {
	return step == StepSameEngine || step == StepOtherEngine && f.Cause != CauseModelGone && f.Cause != CauseDoubtfulRejection
}

type decisionRule struct {
	step Step
	// If causes is nil, the rule applies to all causes, but only if the client has received part of
	// the answer.
	causes    []Cause
	condition string // text for the table in proxy/README.md
	matches   func(*CallState, *Failure) bool
}

// decisionRules are tried in order. DecideStep uses them if the request can be sent again or the
// client has received part of the answer.
var decisionRules = []decisionRule{
	{StepFinish, nil, "where an engine that is lost had only the end left to send, and the model has retry.resume", func(s *CallState, _ *Failure) bool {
		return s.Complete
	}},
	{StepResume, nil, "within the model's retry.resume, apart from the bounds on sends, where an engine that is lost can be continued", func(s *CallState, _ *Failure) bool {
		return s.Resumable
	}},
	{StepSameEngine, []Cause{CauseNotNow}, "once an engine, after 300 ms, within retry.attempts and retry.budget, where no other engine can take the call; no forms", func(s *CallState, f *Failure) bool {
		return !s.Sends.LastWasSameEngine && !s.Form && s.hasRetriesLeft() && !(f.Elsewhere && s.Room) && !s.NoBudget
	}},
	{StepChangeRequest, []Cause{CauseNotNow, CausePromptTooLong, CauseDoubtfulRejection, CauseFinal}, "once a call: a lower token limit, without an effort's word, or with turns joined; never with strict", func(s *CallState, f *Failure) bool {
		return f.Changeable && !s.Strict && !s.Sends.LastWasSameEngine && s.Sends.Changes+s.Sends.Longer == 0
	}},
	{StepMove, []Cause{CauseMustLeaveEngine}, "once a call, unless retry.attempts is 1", func(s *CallState, _ *Failure) bool {
		return s.Sends.Moves == 0 && s.Attempts >= 2
	}},
	{StepOtherEngine, []Cause{CauseDoubtfulRejection}, "after the first send, where another engine has room", func(s *CallState, _ *Failure) bool {
		return s.Sends.Retries+s.Sends.Moves+s.Sends.Longer+s.Sends.LaterTiers == 0 && s.Room
	}},
	{StepOtherEngine, []Cause{CauseConnectionLost, CauseEngineFull, CauseBadAnswer, CauseModelGone}, "within retry.attempts and retry.budget, but for the budget where the model or endpoint is not there", func(s *CallState, f *Failure) bool {
		return s.hasRetriesLeft() && (!s.NoBudget || f.Cause == CauseModelGone)
	}},
	{StepOtherEngine, []Cause{CauseNotNow, CauseMustLeaveEngine}, "within retry.attempts and retry.budget, where another engine may answer", func(s *CallState, f *Failure) bool {
		return f.Elsewhere && s.hasRetriesLeft() && !s.NoBudget
	}},
	{StepOtherEngine, []Cause{CauseEngineFailed}, "within retry.attempts and retry.budget, if the request was not changed, the engine worked less than 30 s and has not failed at this body in the last minute", func(s *CallState, f *Failure) bool {
		return s.hasRetriesLeft() && !s.NoBudget && s.Sends.Changes == 0 && f.Worked < MaxRetriedWorkDuration && !s.BodyFails
	}},
	{StepLongerContext, []Cause{CausePromptTooLong}, "once a call; never with strict; no forms", func(s *CallState, _ *Failure) bool {
		return s.Longer && s.Sends.Longer == 0 && !s.Strict && !s.Form
	}},
	{StepLaterTier, []Cause{CauseConnectionLost, CauseEngineFull, CauseBadAnswer, CauseModelGone, CauseEngineFailed}, "one later tier and one fallback model, apart from the budget", func(s *CallState, _ *Failure) bool {
		return s.Below && s.Sends.LaterTiers < 2
	}},
	{StepLaterTier, []Cause{CauseNotNow, CauseMustLeaveEngine}, "likewise, where another engine may answer", func(s *CallState, f *Failure) bool {
		return f.Elsewhere && s.Below && s.Sends.LaterTiers < 2
	}},
}

func (s *CallState) hasRetriesLeft() bool { return int(s.Sends.Retries) < s.Attempts-1 }

// DecideStep returns the step to take after a failure. If the step uses the retry budget
// (UsesRetryBudget) and the budget is empty, the caller must set NoBudget and call DecideStep
// again.
func DecideStep(s *CallState, f *Failure) Step {
	if s.CannotResend && !s.HasPartialAnswer {
		return StepFail
	}
	for i := range decisionRules {
		if r := &decisionRules[i]; r.appliesTo(s, f) && r.matches(s, f) && (isUncountedStep(r.step) || s.Sends.CountedTotal() < MaxSends) {
			return r.step
		}
	}
	return StepFail
}

// appliesTo reports whether the rule applies to this state and failure.
func (r *decisionRule) appliesTo(s *CallState, f *Failure) bool {
	if s.HasPartialAnswer {
		return r.causes == nil
	}
	return slices.Contains(r.causes, f.Cause)
}

// isUncountedStep reports whether a step does not count against MaxSends.
func isUncountedStep(s Step) bool { return s == StepMove || s == StepResume || s == StepFinish }

// RulesTable returns the rules as a Markdown table.
func RulesTable() string {
	var b strings.Builder
	b.WriteString("| after | the call goes to | when |\n| --- | --- | --- |\n")
	for i := range decisionRules {
		r := &decisionRules[i]
		var causes []string
		for _, c := range r.causes {
			causes = append(causes, c.String())
		}
		after := cmp.Or(strings.Join(causes, ", "), "any failure, once a part of the answer was shown")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", after, r.step, r.condition)
	}
	return b.String()
}
