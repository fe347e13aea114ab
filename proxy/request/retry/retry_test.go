package retry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fresh returns the state after the first send, with a free slot at another engine. If change is
// not nil, fresh calls it to modify the state.
func fresh(change func(*State)) State {
	s := State{Room: true, Attempts: 2}
	if change != nil {
		change(&s)
	}
	return s
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name  string
		after Failure
		state State
		want  Step
	}{
		{"an unreachable engine", Failure{Cause: Lost}, fresh(nil), Other},
		{"and a second one", Failure{Cause: Lost}, fresh(func(s *State) { s.Sends.Retries = 1 }), Fail},
		{"with one attempt", Failure{Cause: Lost}, fresh(func(s *State) { s.Attempts = 1 }), Fail},
		{"with an empty budget", Failure{Cause: Lost}, fresh(func(s *State) { s.NoBudget = true }), Fail},
		{"a second one, with a later tier", Failure{Cause: Lost}, fresh(func(s *State) { s.Sends.Retries, s.Below = 1, true }), Below},
		{"an empty budget, with a fallback", Failure{Cause: Lost}, fresh(func(s *State) { s.NoBudget, s.Below = true, true }), Below},
		{"a tier and a fallback have failed", Failure{Cause: Lost}, fresh(func(s *State) { s.Sends.Retries, s.Sends.Below, s.Below = 1, 2, true }), Fail},
		{"a full engine", Failure{Cause: Full}, fresh(nil), Other},
		{"not an answer", Failure{Cause: BadAnswer}, fresh(nil), Other},
		{"a model that is gone, with an empty budget", Failure{Cause: ModelGone}, fresh(func(s *State) { s.NoBudget = true }), Other},

		{"a 500", Failure{Cause: Failed}, fresh(nil), Other},
		{"a second 500", Failure{Cause: Failed}, fresh(func(s *State) { s.Sends.Retries = 1 }), Fail},
		{"a second 500, with a fallback", Failure{Cause: Failed}, fresh(func(s *State) { s.Sends.Retries, s.Below = 1, true }), Below},
		{"a 500 after a change", Failure{Cause: Failed}, fresh(func(s *State) { s.Sends.Changes = 1 }), Fail},
		{"a 500 after long work", Failure{Cause: Failed, Worked: LongWork}, fresh(nil), Fail},
		{"a 500 of a body that fails", Failure{Cause: Failed}, fresh(func(s *State) { s.BodyFails = true }), Fail},

		{"not now, alone", Failure{Cause: NotNow, Elsewhere: true}, fresh(func(s *State) { s.Room = false }), Repeat},
		{"not now, beside another engine", Failure{Cause: NotNow, Elsewhere: true}, fresh(nil), Other},
		{"not now, and only this engine may answer", Failure{Cause: NotNow}, fresh(nil), Repeat},
		{"not now, twice", Failure{Cause: NotNow}, fresh(func(s *State) { s.Sends = Sends{Retries: 1, Again: true} }), Fail},
		{"not now, with an empty budget", Failure{Cause: NotNow}, fresh(func(s *State) { s.NoBudget = true }), Fail},
		{"not now, of a form", Failure{Cause: NotNow}, fresh(func(s *State) { s.Form = true }), Fail},

		{"a refusal that a change helps", Failure{Cause: Final, Changeable: true}, fresh(nil), Change},
		{"likewise, a doubtful one", Failure{Cause: Doubtful, Changeable: true}, fresh(nil), Change},
		{"after a change", Failure{Cause: Final, Changeable: true}, fresh(func(s *State) { s.Sends = Sends{Changes: 1, Again: true} }), Fail},
		{"after a change, at another engine", Failure{Cause: Final, Changeable: true}, fresh(func(s *State) { s.Sends = Sends{Changes: 1, Retries: 1} }), Fail},
		{"a strict model", Failure{Cause: Final, Changeable: true}, fresh(func(s *State) { s.Strict = true }), Fail},
		{"a fault of the request", Failure{Cause: Final}, fresh(func(s *State) { s.Below = true }), Fail},

		{"a host that vanished", Failure{Cause: Gone}, fresh(nil), Move},
		{"also after all sends", Failure{Cause: Gone}, fresh(func(s *State) { s.Sends = Sends{Retries: 1, Changes: 1, Below: 1} }), Move},
		{"also with an empty budget", Failure{Cause: Gone}, fresh(func(s *State) { s.NoBudget = true }), Move},
		{"twice", Failure{Cause: Gone}, fresh(func(s *State) { s.Sends.Moves = 1 }), Fail},
		{"twice, where another engine may answer", Failure{Cause: Gone, Elsewhere: true}, fresh(func(s *State) { s.Sends.Moves = 1 }), Other},
		{"twice, with a fallback", Failure{Cause: Gone, Elsewhere: true}, fresh(func(s *State) { s.Sends.Moves, s.Sends.Retries, s.Below = 1, 1, true }), Below},
		{"with one attempt", Failure{Cause: Gone}, fresh(func(s *State) { s.Attempts = 1 }), Fail},

		{"a prompt that is too long", Failure{Cause: TooLong}, fresh(nil), Fail},
		{"for this engine", Failure{Cause: TooLong}, fresh(func(s *State) { s.Longer = true }), Larger},
		{"that a lower limit helps", Failure{Cause: TooLong, Changeable: true}, fresh(func(s *State) { s.Longer = true }), Change},
		{"and has not helped", Failure{Cause: TooLong, Changeable: true}, fresh(func(s *State) { s.Longer, s.Sends = true, Sends{Changes: 1, Again: true} }), Larger},
		{"for the second engine", Failure{Cause: TooLong}, fresh(func(s *State) { s.Longer, s.Sends.Longer = true, 1 }), Fail},

		{"a doubtful refusal", Failure{Cause: Doubtful}, fresh(nil), Other},
		{"likewise, with one attempt and an empty budget", Failure{Cause: Doubtful}, fresh(func(s *State) { s.Attempts, s.NoBudget = 1, true }), Other},
		{"likewise, alone", Failure{Cause: Doubtful}, fresh(func(s *State) { s.Room = false }), Fail},
		{"of the second engine", Failure{Cause: Doubtful}, fresh(func(s *State) { s.Sends.Retries = 1 }), Fail},

		{"a part was shown", Failure{Cause: Lost}, fresh(func(s *State) { s.Part, s.Below = true, true }), Fail},
		{"a part that may be resumed", Failure{Cause: Lost}, fresh(func(s *State) { s.Part, s.Resumable = true, true }), Resume},
		{"a part that lacks only its end", Failure{Cause: Lost}, fresh(func(s *State) { s.Part, s.Complete, s.Resumable = true, true, true }), Finish},
		{"a part, resumed after four sends", Failure{Cause: Lost}, fresh(func(s *State) { s.Part, s.Resumable, s.Sends = true, true, Sends{Retries: 3} }), Resume},
		{"the request is spent", Failure{Cause: Gone}, fresh(func(s *State) { s.Spent, s.Below = true, true }), Fail},
		{"four sends", Failure{Cause: Full}, fresh(func(s *State) { s.Below, s.Sends = true, Sends{Retries: 1, Changes: 1, Below: 1} }), Fail},
	} {
		if got := Decide(&c.state, &c.after); got != c.want {
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
		s := State{Attempts: rapid.IntRange(1, 2).Draw(t, "attempts")}
		resumes := rapid.IntRange(0, 3).Draw(t, "resumes")
		sends := 1
		for {
			f := Failure{
				Cause: Cause(rapid.IntRange(0, int(causes)-1).Draw(t, "cause")), Elsewhere: flag("elsewhere"), Changeable: flag("changeable"),
				Worked: time.Duration(rapid.IntRange(0, 60).Draw(t, "worked")) * time.Second,
			}
			s.Part, s.Spent, s.Room, s.Longer, s.Below, s.NoBudget = flag("part"), flag("spent"), flag("room"), flag("longer"), flag("below"), flag("no budget")
			s.Complete = flag("complete")
			s.Form, s.Strict, s.BodyFails = flag("form"), flag("strict"), flag("body fails")
			s.Resumable = s.Sends.Resumes < resumes
			step := Decide(&s, &f)
			switch {
			case step == Fail, step == Finish && s.Part && s.Complete:
				return
			case (s.Part || s.Spent) && step != Resume:
				t.Fatalf("sent again (%v) although a part was shown or the request is spent", step)
			case step == Resume && !(s.Part && s.Resumable):
				t.Fatal("resumed without a part")
			case s.NoBudget && Charged(step, &f):
				t.Fatalf("%v costs a budget that is empty", step)
			}
			s.Sends.Note(step)
			if sends++; sends > MaxSends+1+resumes || s.Sends.All() > MaxSends || s.Sends.Moves > 1 {
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
		if strings.Contains(string(text), Table()) {
			return
		}
		if strings.Contains(string(text), "| after | the call goes to | when |") || strings.Count(path, "..") > 3 {
			t.Fatalf("%s does not have this table:\n%s", path, Table())
		}
		path = filepath.Join("..", path)
	}
}
