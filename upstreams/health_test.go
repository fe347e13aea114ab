package upstreams

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
)

// at returns the time d after a fixed start time.
func at(d time.Duration) time.Time { return begun.Add(time.Hour + d) }

var begun = time.Now()

// stateMachines contains an upstream's two state machines. liveness decides whether the upstream is
// up, and circuit decides whether calls are admitted.
type stateMachines struct {
	liveness livenessState
	circuit  breakerCircuit
}

// TestHealth plays scripts against the state machines. A script is a list of words:
//
//   - "+" is a successful probe, and "-" is a failed probe.
//   - "!" is a refused probe.
//   - "~" is a probe that times out while calls are running, and "=" is a probe that times out
//     while response bytes arrive.
//   - A letter is the outcome of a call: o ok, t timeout, u unreachable, b bad response, f refused,
//     r rejected, g client gone, n a 404 without a reason. An upper-case letter is the outcome of a
//     half-open trial.
//   - A number advances the clock by that many seconds.
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
		{"no answer beside work is busy", "+ ~", StateBusy, "closed"},
		{"for as long as it lasts", "+ ~ ~ ~ ~ ~ ~ ~ ~", StateBusy, "closed"},
		{"also after bad ones", "+ - - ~", StateBusy, "closed"},
		{"and after a call that found nobody", "+ u ~", StateBusy, "closed"},
		{"an answer ends it", "+ ~ ~ +", StateUp, "closed"},
		{"and a flow of answers", "+ ~ ~ =", StateUp, "closed"},
		{"a refused probe ends it at once", "+ ~ !", StateDown, "closed"},
		{"which it does not while up", "+ ! !", StateUp, "closed"},
		{"bad ones end it by their number", "+ ~ - -", StateBusy, "closed"},
		{"which are three", "+ ~ - - -", StateDown, "closed"},
		{"calls that find nobody end it", "+ ~ u u", StateDown, "closed"},
		{"what is down is not busy", "+ - - - ~", StateDown, "closed"},
		{"nor up by a flow", "+ - - - =", StateDown, "closed"},
		{"nor is what has never answered", "~", StateDown, "closed"},
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
		{"but the wait grows on", "+ b b b b b 1.1 O b b b b b 1.5", StateUp, "open"},
		{"unless the engine has been well for a while", "+ b b b b b 1.1 O 16 b b b b b 1.1", StateUp, "half-open"},
		{"down and breaker are two things", "+ b b b b b - - -", StateDown, "open"},
		{"trials go through once probes pass", "+ b b b b b - - - + + 1.1", StateUp, "half-open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stateMachines{liveness: livenessState{fall: 3, rise: 2}}
			now := at(0)
			for _, word := range strings.Fields(c.script) {
				playStep(t, &h, word, &now)
			}
			if h.liveness.state != c.state {
				t.Errorf("state %v, want %v", h.liveness.state, c.state)
			}
			if breaker := h.breaker(now); breaker != c.breaker {
				t.Errorf("breaker %s, want %s", breaker, c.breaker)
			}
		})
	}
}

// playStep plays one word of a script and reports whether the word triggers a generation probe. A
// letter may be followed by @KEY and then /BODY, which identify the source of the call. If they are
// missing, each call comes from a different client. "p" is a generation probe, and "P" is a
// generation probe that is the trial. The letter is followed by the probe's result: + ok, - failed,
// 0 rejected, ~ refused.
func playStep(t *testing.T, h *stateMachines, word string, now *time.Time) (generate bool) {
	t.Helper()
	if verdict, ok := map[string]engine.GenerationVerdict{"+": engine.GenerationOK, "-": engine.GenerationFailed, "0": engine.GenerationRejected, "~": engine.GenerationRefused}[word[1:]]; ok && strings.EqualFold(word[:1], "p") {
		h.circuit.recordGeneration(verdict, word[0] == 'P', *now)
		return false
	}
	played++
	by := FailureSource{Key: strconv.Itoa(played), Sent: true}
	word, who, _ := strings.Cut(word, "@")
	if key, body, _ := strings.Cut(who, "/"); who != "" {
		n, _ := strconv.Atoi(body)
		by.Key, by.Body = strings.Trim(key, "-"), uint64(n)
	}
	outcomes := map[string]Outcome{
		"o": OutcomeOK, "t": OutcomeTimeout, "u": OutcomeUnreachable, "b": OutcomeBadResponse,
		"f": OutcomeRefused, "r": OutcomeRejected, "g": OutcomeClientGone, "n": OutcomeBadResponse,
	}
	by.NotFound = strings.ToLower(word) == "n"
	switch o, known := outcomes[strings.ToLower(word)]; {
	case strings.Contains("+-!~=", word):
		h.liveness.recordProbe(map[string]probeVerdict{
			"+": verdictGood, "-": verdictBad, "!": verdictUnreachable, "~": verdictBusy, "=": verdictProgress,
		}[word])
	case known:
		h.liveness.recordOutcome(o, by)
		return h.circuit.recordOutcome(o, by, word != strings.ToLower(word), *now)
	default:
		d, err := time.ParseDuration(word + "s")
		if err != nil {
			t.Fatal(err)
		}
		*now = now.Add(d)
	}
	return false
}

// played counts the words, to assign a different client to each word.
var played int

// TestBreakerEvidence checks that five failures open the breaker without a generation probe only if
// they are independent of each other. Otherwise generation probes decide. The field asks is the
// expected number of generation probes.
func TestBreakerEvidence(t *testing.T) {
	for _, c := range []struct {
		name, script string
		asks         int
		breaker      string
		barred       string
	}{
		{"four of one key", "b@a b@a b@a b@a", 0, "closed", ""},
		{"five of one key ask", "b@a b@a b@a b@a b@a", 1, "closed", ""},
		{"and so do five without a key", "b@- b@- b@- b@- b@-", 1, "closed", ""},
		{"five of one body", "b@a/1 b@b/1 b@c/1 b@d/1 b@e/1", 1, "closed", ""},
		{"five keys, five bodies", "b@a/1 b@b/2 b@c/3 b@d/4 b@e/5", 0, "open", "a b c d e"},
		{"five keys, bodies not known", "b@a b@b b@c b@d b@e", 0, "open", "a b c d e"},
		{"no key is one of five", "b@- b@a b@b b@c b@d", 0, "open", " a b c d"},
		{"four keys", "b@a b@b b@c b@d b@a b@b", 2, "closed", ""},
		{"a fifth key comes in late", "b@a b@a b@a b@b b@c b@d b@e", 2, "open", "a b c d e"},
		{"a success in between starts over", "b@a b@b b@c b@d o b@e", 0, "closed", ""},
		{"what the client did never counts", "r@a r@a r@a r@a r@a r@a f@a f@a g@a", 0, "closed", ""},
		{"each further one asks again", "b@a b@a b@a b@a b@a b@a b@a", 3, "closed", ""},
		{"a 404 is no evidence", "n@a/1 n@b/2 n@c/3 n@d/4 n@e/5 p+ n@f/6", 1, "closed", ""},
		{"but asks", "n@a/1 n@b/2 n@c/3 n@d/4 n@e/5 p-", 1, "open", ""},
		{"timeouts ask", "t@a t@a t@a t@a t@a", 1, "closed", ""},

		{"the probe fails: open to any trial", "b@a b@a b@a b@a b@a p-", 1, "open", ""},
		{"the probe passes: the row is clear", "b@a b@a b@a b@a b@a p+ b@a b@a b@a b@a", 1, "closed", ""},
		{"and a late failure alone opens nothing", "b@a b@b b@c b@d b@d p+ b@e", 1, "closed", ""},
		{"a full engine is no verdict", "b@a b@a b@a b@a b@a p~ b@a", 2, "closed", ""},
		{"no probe for the kind: one body opens nothing", "b@a/1 b@a/1 b@a/1 b@a/1 b@a/1 p0 b@a/1 b@a/1", 1, "closed", ""},
		{"nor do many bodies of one key", "b@a/1 b@a/2 b@a/3 b@a/4 b@a/5 p0 b@a/6 b@a/7 b@a/8 b@a/9", 1, "closed", ""},
		{"or of four", "b@a/1 b@b/2 b@c/3 b@d/4 b@a/5 p0 b@b/6 b@c/7 b@d/8 b@-/9 b@-/10", 1, "open", ""},
		{"five bodies without a key do", "b@-/1 b@-/2 b@-/3 b@-/4 b@-/5 p0", 1, "open", ""},
		{"also those that come later", "b@-/1 b@-/1 b@-/1 b@-/1 b@-/1 p0 b@-/2 b@-/3 b@-/4 b@-/5", 1, "open", ""},
		{"until something works", "b@-/1 b@-/1 b@-/1 b@-/1 b@-/1 p0 o b@-/1 b@-/2 b@-/3 b@-/4 b@-/5", 2, "closed", ""},
		{"no probe: a failed trial leaves the next to others", "b@a b@b b@c b@d b@e 1.1 P0 B@a", 0, "open", "a"},
		{"it comes late if there are none", "b@a b@b b@c b@d b@e 1.1 P0 B@a 2.1 P0", 0, "half-open", ""},
		{"its second failure adds no wait", "b@a b@b b@c b@d b@e 1.1 P0 B@a 2.1 P0 B@a 1.1", 0, "half-open", "a"},
		{"as often as it fails", "b@a b@b b@c b@d b@e 1.1 P0 B@a 2.1 P0 B@a 1.1 P0 B@a 1.1 P0 B@a 1.1", 0, "half-open", "a"},
		{"another's adds it", "b@a b@b b@c b@d b@e 1.1 P0 B@a 2.1 P0 B@b 3.9", 0, "open", "b"},

		{"but fresh ones stand", "b@a b@b b@c b@d b@d p+ b@e b@e b@e b@e b@e", 1, "open", "a b c d e"},
		{"old ones do not", "b@a b@b b@c b@d b@d 11 p+ b@e b@e b@e b@e b@e", 2, "closed", ""},
		{"and one client is one, whatever passes", "b@a b@a b@a b@a b@a p+ b@a b@a b@a b@a b@a p+ b@a b@a b@a b@a b@a", 3, "closed", ""},

		{"half of the window by one key asks", strings.Repeat("o b@a ", 9) + "o b@a", 1, "closed", ""},
		{"by five it opens", strings.Repeat("o b@a o b@b o b@c o b@d ", 2) + "o o b@e b@a", 0, "open", "a b c d e"},
		{"failures of long ago are no evidence", "b@a o b@b o b@c o b@d o 11 " + strings.Repeat("o b@e ", 9) + "o b@e", 1, "closed", ""},
		{"the probe clears the window", strings.Repeat("o b@a ", 9) + "o b@a p+ " + strings.Repeat("o b@a ", 9), 1, "closed", ""},

		{"a trial of a key bars it", "b@a b@a b@a b@a b@a p- 1.1 B@a", 1, "open", "a"},
		{"and others beside it", "b@a b@a b@a b@a b@a p- 1.1 B@a 2.1 B@b", 1, "open", "a b"},
		{"a probe as the trial closes", "b@a b@a b@a b@a b@a p- 1.1 B@a 2.1 P+", 1, "closed", ""},
		{"or does not", "b@a b@a b@a b@a b@a p- 1.1 B@a 2.1 P-", 1, "open", "a"},
		{"a late probe proves nothing about now", "b@a b@b b@c b@d b@e p+", 0, "open", "a b c d e"},
		{"a probe that the engine rejects bars nobody", "b@a b@b b@c b@d b@e 1.1 P0", 0, "half-open", ""},

		{"one client's lost connections leave the engine up", "+ u@a u@a u@a", 0, "closed", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := stateMachines{liveness: livenessState{fall: 3, rise: 2, state: StateUp}}
			now, asks := at(0), 0
			for _, word := range strings.Fields(c.script) {
				if playStep(t, &h, word, &now) {
					asks++
				}
			}
			if got := h.breaker(now); got != c.breaker || asks != c.asks || strings.Join(h.circuit.barredKeys, " ") != c.barred || h.liveness.state != StateUp {
				t.Errorf("%v, breaker %s, %d probes asked for, barred %q; want %s, %d, %q", h.liveness.state, got, asks, h.circuit.barredKeys, c.breaker, c.asks, c.barred)
			}
		})
	}
}

func (h *stateMachines) breaker(now time.Time) string {
	switch {
	case !h.circuit.isOpen:
		return "closed"
	case now.Before(h.circuit.openUntil):
		return "open"
	}
	return "half-open"
}

// TestHealthAsksForAProbe checks which outcomes of a call request an immediate probe.
func TestHealthAsksForAProbe(t *testing.T) {
	h := livenessState{fall: 3, rise: 2}
	h.recordProbe(verdictGood)
	for o, want := range map[Outcome]bool{
		OutcomeUnreachable: true, OutcomeTimeout: true,
		OutcomeOK: false, OutcomeBadResponse: false, OutcomeRefused: false, OutcomeRejected: false, OutcomeClientGone: false,
	} {
		fresh := h
		if got := fresh.recordOutcome(o, FailureSource{}); got != want {
			t.Errorf("outcome(%v) = %t, want %t", o, got, want)
		}
	}
}

func TestOutcomeWindowExpires(t *testing.T) {
	var w outcomeWindow
	for i := range 3 * minWindowOutcomes {
		w.addOutcome(true, at(time.Duration(i)*time.Millisecond))
	}
	if !w.isFailureShareExceeded(at(time.Second)) || w.isFailureShareExceeded(at(11*time.Second)) {
		t.Error("the window does not slide")
	}
	w.addOutcome(false, at(20*time.Second)) // reuses an old bucket
	if w.isFailureShareExceeded(at(20 * time.Second)) {
		t.Error("an old bucket was counted again")
	}
}

// TestDownsAreCounted checks that each outage is counted once, even if it is short.
func TestDownsAreCounted(t *testing.T) {
	u := newTestUpstream(t, config.Concurrency{Shared: 8})
	for _, s := range []State{StateUp, StateDown, StateUp, StateDown, StateDown, StateUp} {
		u.bring(s)
	}
	if n := u.Status(time.Now()).Downs; n != 2 {
		t.Errorf("it went down twice, %d are counted", n)
	}
	u.Health.setStalled(true, "test", time.Now())
	u.bring(StateDown) // the same outage continues
	if n := u.Status(time.Now()).Downs; n != 3 {
		t.Errorf("it stalled once more, %d are counted", n)
	}
}
