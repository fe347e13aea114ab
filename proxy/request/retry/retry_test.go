package retry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// firstFailureState returns the state after the first send has failed and while another engine has
// a free slot. If change is not nil, firstFailureState calls it to modify the state.
func firstFailureState(change func(*CallState)) CallState {
	s := CallState{Room: true, Attempts: 2}
	if change != nil {
		change(&s)
	}
	return s
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		after Failure
		state CallState
		want  Step
	}{
		{"an unreachable engine", Failure{Cause: CauseConnectionLost}, firstFailureState(nil), StepOtherEngine},
		{"and a second one", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.Sends.Retries = 1 }), StepFail},
		{"with one attempt", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.Attempts = 1 }), StepFail},
		{"with an empty budget", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.NoBudget = true }), StepFail},
		{"a second one, with a later tier", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.Sends.Retries, s.Below = 1, true }), StepLaterTier},
		{"an empty budget, with a fallback", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.NoBudget, s.Below = true, true }), StepLaterTier},
		{"a tier and a fallback have failed", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.Sends.Retries, s.Sends.LaterTiers, s.Below = 1, 2, true }), StepFail},
		{"a full engine", Failure{Cause: CauseEngineFull}, firstFailureState(nil), StepOtherEngine},
		{"not an answer", Failure{Cause: CauseBadAnswer}, firstFailureState(nil), StepOtherEngine},
		{"a model that is gone, with an empty budget", Failure{Cause: CauseModelGone}, firstFailureState(func(s *CallState) { s.NoBudget = true }), StepOtherEngine},

		{"a 500", Failure{Cause: CauseEngineFailed}, firstFailureState(nil), StepOtherEngine},
		{"a second 500", Failure{Cause: CauseEngineFailed}, firstFailureState(func(s *CallState) { s.Sends.Retries = 1 }), StepFail},
		{"a second 500, with a fallback", Failure{Cause: CauseEngineFailed}, firstFailureState(func(s *CallState) { s.Sends.Retries, s.Below = 1, true }), StepLaterTier},
		{"a 500 after a change", Failure{Cause: CauseEngineFailed}, firstFailureState(func(s *CallState) { s.Sends.Changes = 1 }), StepFail},
		{"a 500 after long work", Failure{Cause: CauseEngineFailed, Worked: MaxRetriedWorkDuration}, firstFailureState(nil), StepFail},
		{"a 500 of a body that fails", Failure{Cause: CauseEngineFailed}, firstFailureState(func(s *CallState) { s.BodyFails = true }), StepFail},

		{"not now, alone", Failure{Cause: CauseNotNow, Elsewhere: true}, firstFailureState(func(s *CallState) { s.Room = false }), StepSameEngine},
		{"not now, beside another engine", Failure{Cause: CauseNotNow, Elsewhere: true}, firstFailureState(nil), StepOtherEngine},
		{"not now, and only this engine may answer", Failure{Cause: CauseNotNow}, firstFailureState(nil), StepSameEngine},
		{"not now, twice", Failure{Cause: CauseNotNow}, firstFailureState(func(s *CallState) { s.Sends = SendCounts{Retries: 1, LastWasSameEngine: true} }), StepFail},
		{"not now, with an empty budget", Failure{Cause: CauseNotNow}, firstFailureState(func(s *CallState) { s.NoBudget = true }), StepFail},
		{"not now, of a form", Failure{Cause: CauseNotNow}, firstFailureState(func(s *CallState) { s.Form = true }), StepFail},

		{"a refusal that a change helps", Failure{Cause: CauseFinal, Changeable: true}, firstFailureState(nil), StepChangeRequest},
		{"likewise, a doubtful one", Failure{Cause: CauseDoubtfulRejection, Changeable: true}, firstFailureState(nil), StepChangeRequest},
		{"after a change", Failure{Cause: CauseFinal, Changeable: true}, firstFailureState(func(s *CallState) { s.Sends = SendCounts{Changes: 1, LastWasSameEngine: true} }), StepFail},
		{"after a change, at another engine", Failure{Cause: CauseFinal, Changeable: true}, firstFailureState(func(s *CallState) { s.Sends = SendCounts{Changes: 1, Retries: 1} }), StepFail},
		{"a strict model", Failure{Cause: CauseFinal, Changeable: true}, firstFailureState(func(s *CallState) { s.Strict = true }), StepFail},
		{"a fault of the request", Failure{Cause: CauseFinal}, firstFailureState(func(s *CallState) { s.Below = true }), StepFail},

		{"a host that vanished", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(nil), StepMove},
		{"also after all sends", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(func(s *CallState) { s.Sends = SendCounts{Retries: 1, Changes: 1, LaterTiers: 1} }), StepMove},
		{"also with an empty budget", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(func(s *CallState) { s.NoBudget = true }), StepMove},
		{"twice", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(func(s *CallState) { s.Sends.Moves = 1 }), StepFail},
		{"twice, where another engine may answer", Failure{Cause: CauseMustLeaveEngine, Elsewhere: true}, firstFailureState(func(s *CallState) { s.Sends.Moves = 1 }), StepOtherEngine},
		{"twice, with a fallback", Failure{Cause: CauseMustLeaveEngine, Elsewhere: true}, firstFailureState(func(s *CallState) { s.Sends.Moves, s.Sends.Retries, s.Below = 1, 1, true }), StepLaterTier},
		{"with one attempt", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(func(s *CallState) { s.Attempts = 1 }), StepFail},

		{"a prompt that is too long", Failure{Cause: CausePromptTooLong}, firstFailureState(nil), StepFail},
		{"for this engine", Failure{Cause: CausePromptTooLong}, firstFailureState(func(s *CallState) { s.Longer = true }), StepLongerContext},
		{"that a lower limit helps", Failure{Cause: CausePromptTooLong, Changeable: true}, firstFailureState(func(s *CallState) { s.Longer = true }), StepChangeRequest},
		{"and has not helped", Failure{Cause: CausePromptTooLong, Changeable: true}, firstFailureState(func(s *CallState) { s.Longer, s.Sends = true, SendCounts{Changes: 1, LastWasSameEngine: true} }), StepLongerContext},
		{"for the second engine", Failure{Cause: CausePromptTooLong}, firstFailureState(func(s *CallState) { s.Longer, s.Sends.Longer = true, 1 }), StepFail},

		{"a doubtful refusal", Failure{Cause: CauseDoubtfulRejection}, firstFailureState(nil), StepOtherEngine},
		{"likewise, with one attempt and an empty budget", Failure{Cause: CauseDoubtfulRejection}, firstFailureState(func(s *CallState) { s.Attempts, s.NoBudget = 1, true }), StepOtherEngine},
		{"likewise, alone", Failure{Cause: CauseDoubtfulRejection}, firstFailureState(func(s *CallState) { s.Room = false }), StepFail},
		{"of the second engine", Failure{Cause: CauseDoubtfulRejection}, firstFailureState(func(s *CallState) { s.Sends.Retries = 1 }), StepFail},

		{"a part was shown", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.HasPartialAnswer, s.Below = true, true }), StepFail},
		{"a part that may be resumed", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.HasPartialAnswer, s.Resumable = true, true }), StepResume},
		{"a part that lacks only its end", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.HasPartialAnswer, s.Complete, s.Resumable = true, true, true }), StepFinish},
		{"a part, resumed after four sends", Failure{Cause: CauseConnectionLost}, firstFailureState(func(s *CallState) { s.HasPartialAnswer, s.Resumable, s.Sends = true, true, SendCounts{Retries: 3} }), StepResume},
		{"the request is spent", Failure{Cause: CauseMustLeaveEngine}, firstFailureState(func(s *CallState) { s.CannotResend, s.Below = true, true }), StepFail},
		{"four sends", Failure{Cause: CauseEngineFull}, firstFailureState(func(s *CallState) { s.Below, s.Sends = true, SendCounts{Retries: 1, Changes: 1, LaterTiers: 1} }), StepFail},
	} {
		if got := DecideStep(&c.state, &c.after); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestDecideEnds checks that any sequence of failures ends after at most four sends, one move and
// the permitted number of resumes. Once the client has received part of the answer, the call may be
// sent again only to resume it.
func TestDecideEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		s := CallState{Attempts: rapid.IntRange(1, 2).Draw(t, "attempts")}
		resumes := rapid.IntRange(0, 3).Draw(t, "resumes")
		sends := 1
		for {
			f := Failure{
				Cause: Cause(rapid.IntRange(0, int(causeCount)-1).Draw(t, "cause")), Elsewhere: flag("elsewhere"), Changeable: flag("changeable"),
				Worked: time.Duration(rapid.IntRange(0, 60).Draw(t, "worked")) * time.Second,
			}
			s.HasPartialAnswer, s.CannotResend, s.Room, s.Longer, s.Below, s.NoBudget = flag("part"), flag("spent"), flag("room"), flag("longer"), flag("below"), flag("no budget")
			s.Complete = flag("complete")
			s.Form, s.Strict, s.BodyFails = flag("form"), flag("strict"), flag("body fails")
			s.Resumable = int(s.Sends.Resumes) < resumes
			step := DecideStep(&s, &f)
			switch {
			case step == StepFail, step == StepFinish && s.HasPartialAnswer && s.Complete:
				return
			case (s.HasPartialAnswer || s.CannotResend) && step != StepResume:
				t.Fatalf("sent again (%v) although a part was shown or the request is spent", step)
			case step == StepResume && !(s.HasPartialAnswer && s.Resumable):
				t.Fatal("resumed without a part")
			case s.NoBudget && UsesRetryBudget(step, &f):
				t.Fatalf("%v costs a budget that is empty", step)
			}
			s.Sends.CountStep(step)
			if sends++; sends > MaxSends+1+resumes || s.Sends.CountedTotal() > MaxSends || s.Sends.Moves > 1 {
				t.Fatalf("got %d sends, more than allowed: %+v", sends, s.Sends)
			}
		}
	})
}

// TestTable checks that the table in proxy/README.md matches the rules.
func TestTable(t *testing.T) {
	path := filepath.Join("..", "README.md")
	for {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), RulesTable()) {
			return
		}
		if strings.Contains(string(text), "| after | the call goes to | when |") || strings.Count(path, "..") > 3 {
			t.Fatalf("%s does not have this table:\n%s", path, RulesTable())
		}
		path = filepath.Join("..", path)
	}
}
