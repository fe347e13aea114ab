package sim

import (
	"bytes"
	"strings"
	"time"
)

// bufferedToken is the time of a token that is held back.
const bufferedToken = 50 * time.Millisecond

// streamFaults happen in the middle of an answer, or to its end.
var streamFaults = []fault{
	{
		name: "cut-after", usage: "[=2]", text: "FIN without the last chunk after so many events (a plain answer: after half of it)",
		twist: func(t *misbehaviour, a *args) { t.at(a.number(2), (*exchange).cut) },
	},
	{
		name: "reset-after", usage: "[=2]", text: "RST after so many events (a plain answer: after half of it)",
		twist: func(t *misbehaviour, a *args) {
			t.at(a.number(2), func(x *exchange) bool {
				x.flush()
				x.pause(5 * time.Millisecond) // or the RST overtakes what was written
				x.c.reset()
				return false
			})
		},
	},
	{
		name: "stall-after", usage: "[=2][;ping=DURATION]", text: "silence for ever after so many events (0: after the head); ping: comments go on",
		twist: func(t *misbehaviour, a *args) {
			ping := a.duration("ping", 0)
			t.at(a.number(2), func(x *exchange) bool {
				for x.flush() && ping > 0 && x.pause(ping) {
					x.comment()
				}
				if !x.lost {
					x.hang()
				}
				return false
			})
		},
	},
	{
		name: "lost-after", usage: "[=2]", text: "the engine forgets the request after so many events: its slot is free, its stream open and silent",
		twist: func(t *misbehaviour, a *args) {
			t.at(a.number(2), func(x *exchange) bool {
				x.flush()
				x.t.free()
				x.hang()
				return false
			})
		},
	},
	{
		name: "buffered-call", usage: "[=100s]", text: "silence for so long after the first event while tokens are made, then a tool call comes whole",
		twist: func(t *misbehaviour, a *args) {
			d := a.span(100 * time.Second)
			t.whole = true
			t.at(1, func(x *exchange) bool {
				for end := time.Now().Add(d); time.Until(end) > 0; x.e.counters.steps.Add(1) {
					if !x.flush() || !x.pause(min(bufferedToken, time.Until(end))) || !x.e.strain.stand(x) {
						return false
					}
				}
				return true
			})
		},
	},
	{
		name: "pause-after", usage: "[=2][;for=1s]", text: "silence for a while after so many events, then on (legal)",
		twist: func(t *misbehaviour, a *args) {
			d := a.duration("for", time.Second)
			t.at(a.number(2), func(x *exchange) bool { return x.flush() && x.pause(d) })
		},
	},
	{
		name: "error-in-stream", usage: "[=2][;code=500][;done=0|1][;message=TEXT]", text: "an error event after so many, then [DONE] or not (default: as the profile does)",
		twist: func(t *misbehaviour, a *args) { errorEvent(t, a, a.number(2), 500) },
	},
	{
		name: "error-first", usage: "[;code=503][;done=0|1][;message=TEXT]", text: "200 and an error as the first event",
		twist: func(t *misbehaviour, a *args) { errorEvent(t, a, 0, 503) },
	},
	{
		name: "no-done", text: "a finish_reason, but no [DONE]",
		twist: func(t *misbehaviour, _ *args) { t.noDone = true },
	},
	{
		name: "no-finish", usage: "[;done=1][;ghost=1]", text: "a clean end with no finish_reason (null in a plain answer) and no [DONE]; done: with [DONE]; ghost: after a chunk with no model and no text",
		twist: func(t *misbehaviour, a *args) {
			t.noFinish, t.noDone, t.ghost = true, !a.flag("done"), a.flag("ghost")
		},
	},
	{
		name: "finish", usage: "=REASON", text: "this finish_reason (content_filter, abort, …)",
		twist: func(t *misbehaviour, a *args) {
			if t.finish = a.word(); t.finish == "" {
				a.fail("want a reason")
			}
		},
	},
	{
		name: "huge-event", usage: "[=2097152][;at=2]", text: "one event with so many bytes of text",
		twist: func(t *misbehaviour, a *args) {
			n := a.number(2 << 20)
			t.inStream(a.num("at", 2), func(x *exchange) bool {
				if x.content != nil {
					x.emit(x.content(strings.Repeat("w", n)))
				}
				return x.flush()
			})
		},
	},
	{
		name: "endless-line", usage: "[=1]", text: "an event that never ends, after so many",
		twist: func(t *misbehaviour, a *args) {
			t.inStream(a.number(1), func(x *exchange) bool {
				x.put([]byte(`data: {"id":"chatcmpl-endless","choices":[{"index":0,"delta":{"content":"`))
				x.endless(bytes.Repeat([]byte("endless "), 4096), x.framing == byChunks)
				return false
			})
		},
	},
}
