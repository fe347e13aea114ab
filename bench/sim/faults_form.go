package sim

import (
	"time"
)

// formFaults are the many legal forms of a stream, and the ways of telling usage and tool calls.
var formFaults = []fault{
	{
		name: "crlf", text: "events with CRLF (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.EOL = "\r\n" },
	},
	{
		name: "cr", text: "events with lone CR (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.EOL = "\r" },
	},
	{
		name: "nospace", text: "no blank after data: (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.NoSpace = true },
	},
	{
		name: "comments", text: "comments between events (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.Comments = true },
	},
	{
		name: "multiline-data", text: "events in several data lines (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.Multiline = true },
	},
	{
		name: "fields", text: "event, id and retry lines (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.Fields = true },
	},
	{
		name: "bom", text: "a byte order mark before the first event (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.BOM = true },
	},
	{
		name: "escaped", text: "\\u escapes for all that is not ASCII, in surrogate pairs (legal)",
		twist: func(t *misbehaviour, _ *args) { t.form.Escaped = true },
	},
	{
		name: "open-end", text: "no blank line after [DONE]",
		twist: func(t *misbehaviour, _ *args) { t.form.OpenEnd = true },
	},
	{
		name: "byte-by-byte", usage: "[;gap=0s]", text: "every byte of the body in a chunk and a write of its own (legal)",
		twist: func(t *misbehaviour, a *args) { t.piece, t.pieceGap = always(1), a.duration("gap", 0) },
	},
	{
		name: "split", usage: "[;gap=100us]", text: "the body in odd pieces of 1 to 23 bytes, across events and characters (legal)",
		twist: func(t *misbehaviour, a *args) {
			t.piece, t.pieceGap = func(x *exchange) int { return 1 + int(x.random()%23) }, a.duration("gap",
				100*time.Microsecond)
		},
	},
	{
		name: "usage-every-chunk", text: "usage on every chunk",
		twist: func(t *misbehaviour, _ *args) { t.usage = usageEvery },
	},
	{
		name: "usage-on-finish", text: "usage on the finish chunk, none of its own",
		twist: func(t *misbehaviour, _ *args) { t.usage = usageOnFinish },
	},
	{
		name: "no-usage", text: "no usage, asked for or not, in plain answers neither",
		twist: func(t *misbehaviour, _ *args) { t.usage = usageNever },
	},
	{
		name: "usage-unasked", text: "a usage chunk although nobody asked",
		twist: func(t *misbehaviour, _ *args) { t.usage = usageUnasked },
	},
	{
		name: "tool-interleaved", text: "two calls at least, their fragments interleaved",
		twist: func(t *misbehaviour, _ *args) { t.minCalls, t.interwove = 2, true },
	},
	{
		name: "tool-whole", text: "each call in one delta, as Ollama sends it",
		twist: func(t *misbehaviour, _ *args) { t.whole = true },
	},
	{
		name: "tool-bad-args", text: "arguments that are not JSON",
		twist: func(t *misbehaviour, _ *args) { t.badArgs = true },
	},
}
