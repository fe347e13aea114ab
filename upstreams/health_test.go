package upstreams

import (
	"strings"
	"testing"
	"time"
)

// at is a moment of the tests' own clock.
func at(d time.Duration) time.Time { return epoch.Add(time.Hour + d) }

// TestHealth plays scripts against the state machine. A script is words: "+" and "-" are probes, a letter a call's outcome
// (o ok, t timeout, u unreachable, b bad response, f refused, r rejected, g client gone), an upper-case letter that of a
// half-open trial, and a number lets seconds pass.
func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name, script string
		state        State
		breaker      string
	}{
		{"unprobed", "", StatePending, "closed"},
		{"first probe decides: good", "+", StateUp, "closed"},
		{"first probe decides: bad", "-", StateDown, "closed"},
		{"two bad probes are a hiccup", "+ - -", StateUp, "closed"},
		{"a good one in between starts over", "+ - - + - -", StateUp, "closed"},
		{"the third takes it down", "+ - - -", StateDown, "closed"},
		{"one good probe is not enough to return", "+ - - - +", StateDown, "closed"},
		{"two are", "+ - - - + +", StateUp, "closed"},
		{"a bad one in between starts over", "+ - - - + - +", StateDown, "closed"},

		{"one call that finds nobody makes suspect", "+ u", StateUp, "closed"},
		{"and then one bad probe is enough", "+ u -", StateDown, "closed"},
		{"two such calls need no probe", "+ u u", StateDown, "closed"},
		{"an answer in between clears", "+ u o u", StateUp, "closed"},
		{"even a refusal is an answer", "+ u f u", StateUp, "closed"},
		{"a good probe clears", "+ u + u -", StateDown, "closed"},
		{"a good probe clears the count", "+ u + u", StateUp, "closed"},
		{"a pending one goes down by calls too", "u u", StateDown, "closed"},
		{"calls that end later leave it down", "+ u u u o", StateDown, "closed"},

		{"four failures in a row", "+ b b b b", StateUp, "closed"},
		{"five open the breaker", "+ b b b b b", StateUp, "open"},
		{"timeouts count", "+ t t t t t", StateUp, "open"},
		{"a success starts over", "+ b b b b o b b b b", StateUp, "closed"},
		{"what the client did never counts", "+ r r r r r r r g g g g g g g f f f f f f f", StateUp, "closed"},
		{"and does not end a row either", "+ b b b b r g f b", StateUp, "open"},
		{"half of twenty in the window", "+ o o o o o o o o o o b b b b o b b b b o b b b b", StateUp, "open"},
		{"half of fewer", "+ o b o b o b o b o b", StateUp, "closed"},
		{"what is older than the window is forgotten", "+ o o o b b b b o b b b b o b b 11 o b b o", StateUp, "closed"},
		{"open after a second: a trial may pass", "+ b b b b b 1.1", StateUp, "half-open"},
		{"a good trial closes", "+ b b b b b 1.1 O", StateUp, "closed"},
		{"a failed trial opens for twice as long", "+ b b b b b 1.1 B 1.5", StateUp, "open"},
		{"but no longer", "+ b b b b b 1.1 B 2.1", StateUp, "half-open"},
		{"and twice again", "+ b b b b b 1.1 B 2.1 T 3.9", StateUp, "open"},
		{"the pause is bounded", "+ b b b b b 1.1 B 99 B 99 B 99 B 99 B 99 B 15.1", StateUp, "half-open"},
		{"a trial whose client left decides nothing", "+ b b b b b 1.1 G", StateUp, "half-open"},
		{"nor does a refused one", "+ b b b b b 1.1 F", StateUp, "half-open"},
		{"late answers of before do not close", "+ b b b b b o o o", StateUp, "open"},
		{"late failures of before do not prolong", "+ b b b b b 0.9 b b b 0.2", StateUp, "half-open"},
		{"after closing, one failure is one", "+ b b b b b 1.1 O b b b b", StateUp, "closed"},
		{"down and breaker are two things", "+ b b b b b - - -", StateDown, "open"},
		{"trials go through once probes pass", "+ b b b b b - - - + + 1.1", StateUp, "half-open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := health{fall: 3, rise: 2}
			now := at(0)
			for _, word := range strings.Fields(c.script) {
				play(t, &h, word, &now)
			}
			if h.state != c.state {
				t.Errorf("state %v, want %v", h.state, c.state)
			}
			breaker := "closed"
			if h.open && now.Before(h.openUntil) {
				breaker = "open"
			} else if h.open {
				breaker = "half-open"
			}
			if breaker != c.breaker {
				t.Errorf("breaker %s, want %s", breaker, c.breaker)
			}
		})
	}
}

func play(t *testing.T, h *health, word string, now *time.Time) {
	t.Helper()
	outcomes := map[string]Outcome{
		"o": OutcomeOK, "t": OutcomeTimeout, "u": OutcomeUnreachable, "b": OutcomeBadResponse,
		"f": OutcomeRefused, "r": OutcomeRejected, "g": OutcomeClientGone,
	}
	switch o, known := outcomes[strings.ToLower(word)]; {
	case word == "+" || word == "-":
		h.probe(word == "+")
	case known:
		h.outcome(o, word != strings.ToLower(word), *now)
	default:
		d, err := time.ParseDuration(word + "s")
		if err != nil {
			t.Fatal(err)
		}
		*now = now.Add(d)
	}
}

// A probe is asked for at once where passive evidence raises a doubt, and only there.
func TestHealthAsksForAProbe(t *testing.T) {
	h := health{fall: 3, rise: 2}
	h.probe(true)
	for o, want := range map[Outcome]bool{
		OutcomeUnreachable: true, OutcomeTimeout: true,
		OutcomeOK: false, OutcomeBadResponse: false, OutcomeRefused: false, OutcomeRejected: false, OutcomeClientGone: false,
	} {
		fresh := h
		if got := fresh.outcome(o, false, at(0)); got != want {
			t.Errorf("%v: %t", o, got)
		}
	}
}

func TestWindowForgets(t *testing.T) {
	var w window
	for i := range 3 * breakerVolume {
		w.add(true, at(time.Duration(i)*time.Millisecond))
	}
	if !w.tripped(at(time.Second)) || w.tripped(at(11*time.Second)) {
		t.Error("the window does not slide")
	}
	w.add(false, at(20*time.Second)) // reuses a bucket of the past
	if w.tripped(at(20 * time.Second)) {
		t.Error("an old bucket was counted again")
	}
}
