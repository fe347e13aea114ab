package call

import (
	"testing"
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
)

// refusalOf returns an engine's refusal about the given subject. If o contains token counts, the
// refusal is about the context length.
func refusalOf(about engineerror.RejectedSubject, o apierr.ContextOverflow) *failure.Failure {
	f := &failure.Failure{API: &apierr.Error{Status: 400, Code: apierr.CodeRejectedByEngine, Overflow: o}, About: about}
	if o.HasSizes() {
		f.API.Code = apierr.CodeContextLength
	}
	return f
}

// TestChangeAfter checks which change is chosen for each refusal and request.
func TestChangeAfter(t *testing.T) {
	room := apierr.ContextOverflow{Prompt: 3000, Answer: 2000, Max: 4096}
	effort := func(word string) requestChange {
		return requestChange{refused: endpoint.RejectedParts{Efforts: chat.NewEffortSet(word)}}
	}
	turns := requestChange{refused: endpoint.RejectedParts{AdjacentTurns: true}}
	for _, c := range []struct {
		name string
		why  *failure.Failure
		sent endpoint.SentParts
		want requestChange // zero value means no change
	}{
		{"a limit that fits", refusalOf(0, room), endpoint.SentParts{Limit: 2000}, requestChange{limit: 1095}},
		{"no limit was sent", refusalOf(0, room), endpoint.SentParts{Limit: -1}, requestChange{}},
		{"no room at all", refusalOf(0, apierr.ContextOverflow{Prompt: 5000, Max: 4096}), endpoint.SentParts{Limit: 2000}, requestChange{}},
		{"the context before anything else", refusalOf(engineerror.SubjectEffort, room), endpoint.SentParts{Limit: 2000, Effort: "high"}, requestChange{limit: 1095}},
		{"a word", refusalOf(engineerror.SubjectEffort, apierr.ContextOverflow{}), endpoint.SentParts{Limit: 5, Effort: "high"}, effort("high")},
		{"no effort was sent", refusalOf(engineerror.SubjectEffort, apierr.ContextOverflow{}), endpoint.SentParts{AdjacentTurns: true}, requestChange{}},
		{"turns", refusalOf(engineerror.SubjectRoles, apierr.ContextOverflow{}), endpoint.SentParts{Effort: "high", AdjacentTurns: true}, turns},
		{"turns that alternate, or are joined already", refusalOf(engineerror.SubjectRoles, apierr.ContextOverflow{}), endpoint.SentParts{Effort: "high"}, requestChange{}},
		{"anything else", refusalOf(engineerror.SubjectOther, apierr.ContextOverflow{}), endpoint.SentParts{Limit: 5, Effort: "high", AdjacentTurns: true}, requestChange{}},
	} {
		if got, ok := chooseRequestChange(c.why, c.sent); ok != (c.want != requestChange{}) || ok && got != c.want {
			t.Errorf("%s: chooseRequestChange = %+v, %t, want %+v", c.name, got, ok, c.want)
		}
	}
}

// TestHasAcceptedChange checks that a change counts as accepted if the engine's next error is about
// another subject.
func TestHasAcceptedChange(t *testing.T) {
	var (
		effort   = endpoint.RejectedParts{Efforts: chat.NewEffortSet("high")}
		turns    = endpoint.RejectedParts{AdjacentTurns: true}
		overflow = apierr.ContextOverflow{Prompt: 5000, Max: 4096}
	)
	for _, c := range []struct {
		changed endpoint.RejectedParts
		why     *failure.Failure
		want    bool
	}{
		{endpoint.RejectedParts{}, refusalOf(engineerror.SubjectRoles, apierr.ContextOverflow{}), false},
		{effort, refusalOf(engineerror.SubjectRoles, apierr.ContextOverflow{}), true},
		{effort, refusalOf(engineerror.SubjectEffort, apierr.ContextOverflow{}), false},
		// SubjectOther does not count, because the refusal may only be quoting the request.
		{effort, refusalOf(engineerror.SubjectOther, apierr.ContextOverflow{}), false},
		{effort, refusalOf(0, overflow), true},
		{turns, refusalOf(engineerror.SubjectEffort, apierr.ContextOverflow{}), true},
		{turns, refusalOf(engineerror.SubjectRoles, apierr.ContextOverflow{}), false},
	} {
		if got := hasEngineAcceptedChange(c.changed, c.why); got != c.want {
			t.Errorf("after the change %+v and the refusal %d: hasEngineAcceptedChange = %t, want %t", c.changed, c.why.About, got, c.want)
		}
	}
}

// TestRefusals checks that refusals are stored by engine and model, and expire after an hour.
func TestRefusals(t *testing.T) {
	var (
		r     engineRefusals
		now   = time.Now()
		a, b  = refusalKey{"a", "m"}, refusalKey{"a", "n"}
		high  = endpoint.RejectedParts{Efforts: chat.NewEffortSet("high")}
		turns = endpoint.RejectedParts{AdjacentTurns: true}
		check = func(k refusalKey, at time.Duration, want endpoint.RejectedParts) {
			t.Helper()
			if got := r.lookupRejectedParts(k, now.Add(at)); got != want {
				t.Errorf("the change for %v after %v is %+v, want %+v", k, at, got, want)
			}
		}
	)
	check(a, 0, endpoint.RejectedParts{})
	if !r.addRefusal(a, high, now) || r.addRefusal(a, high, now) || !r.addRefusal(a, turns, now.Add(time.Minute)) || !r.addRefusal(b, turns, now) {
		t.Error("what is new is not told from what is known")
	}
	check(a, time.Minute, high.Union(turns))
	check(b, time.Minute, turns)
	check(refusalKey{"b", "m"}, 0, endpoint.RejectedParts{})
	check(b, time.Hour, endpoint.RejectedParts{})
	check(a, time.Hour, high.Union(turns)) // the refusal of a was added again one minute later
	if r.addRefusal(b, turns, now.Add(2*time.Hour)); len(*r.entries.Load()) != 1 {
		t.Errorf("what was forgotten is kept: %v", *r.entries.Load())
	}
}
