package sim

import (
	"penstock/bench/sim/dialect"
	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// chatWriter tells chat completions, and the older completions.
type chatWriter struct {
	profile.ChunkWriter
	told      *dialect.Answer
	stream    *eventWriter
	q         *generate.Request
	choices   []generate.Plan
	usageEach bool // on every chunk
	usageLast bool // the client asked for it
}

func newChatWriter(a *answer, legacy bool) *chatWriter {
	w := &chatWriter{
		ChunkWriter: profile.ChunkWriter{
			Profile: a.x.p, ID: a.told.ID, Model: a.told.Model, Created: a.told.Created, Legacy: legacy,
		},
		told: &a.told, stream: &a.x.stream, q: a.q, choices: a.choices,
		usageEach: a.q.Usage.Each, usageLast: a.q.Usage.Last,
	}
	switch a.x.t.Usage {
	case fault.UsageNever:
		w.usageEach, w.usageLast = false, false
	case fault.UsageEvery:
		w.usageEach = true
	}
	w.NullUsage = a.x.p.Is("sglang tgi") || a.x.p.Family == "openai" && w.usageLast
	return w
}

func (w *chatWriter) content(text string) []byte {
	p := profile.Piece{Kind: profile.PieceText, Word: textgen.NewWord(text)}
	return w.Append(nil, &profile.Chunk{Delta: w.AppendPiece(nil, &p, nil, false)})
}

// begin opens a choice where the engine has a chunk for that.
func (w *chatWriter) begin(i int, c *generate.Plan) bool {
	w.stream.join(w.Profile.Joins)
	if w.Profile.Family == "sglang" {
		w.Created = w.told.Now()
	}
	if c.Opened || w.Legacy || w.Profile.Roles != profile.RoleAlone {
		return true
	}
	c.Opened = true
	w.stream.delta = w.AppendRole(w.stream.delta[:0])
	return w.send(&profile.Chunk{Index: i, Delta: w.stream.delta})
}

func (w *chatWriter) piece(i int, c *generate.Plan, p profile.Piece) bool {
	if p.Kind == profile.PieceThought && w.q.Hush {
		return true
	}
	var of *profile.ToolCall
	if p.Kind >= profile.PieceCall {
		of = &w.told.Calls[p.Call]
	}
	w.stream.delta = w.AppendPiece(w.stream.delta[:0], &p, of, !c.Opened && !w.Legacy)
	c.Opened = true
	one := profile.Chunk{Index: i, Delta: w.stream.delta}
	if w.q.Logprobs && p.Kind == profile.PieceText {
		one.Logprobs = w.logprobs([]textgen.Word{p.Word})
	}
	// no end of text, so no chunk of its own
	if w.Profile.Family == "tgi" && c.Left == 0 && c.Finish == "length" && !w.told.Faults.NoFinish {
		c.Closed, one.Finish = true, c.Finish
	}
	return w.send(&one)
}

func (w *chatWriter) end(i int, c *generate.Plan) bool {
	w.stream.join(w.Profile.Joins) // with the usage chunk, if this choice is the last
	w.stream.delta = w.AppendEnd(w.stream.delta[:0])
	end := profile.Chunk{Index: i, Delta: w.stream.delta, Finish: c.Finish, Stopped: c.Stopped}
	last := over(w.choices)
	if w.Profile.Family == "llamacpp" && last {
		if w.Legacy && w.usageLast { // there it has no chunk of its own
			end.Usage = w.usage()
		}
		if w.Legacy || !w.usageChunk() {
			end.Timings = w.told.Timings()
		}
	}
	if w.told.Faults.Usage == fault.UsageOnFinish && last {
		end.Usage = w.usage()
	}
	ok := w.send(&end)
	if !last {
		w.stream.join(false)
	}
	return ok
}

// done tells what comes behind the choices.
func (w *chatWriter) done() bool {
	t := w.told.Faults
	if t.Ghost {
		was := w.Model
		w.Model = ""
		if !w.send(&profile.Chunk{Delta: []byte(`{"content":""}`)}) {
			return false
		}
		w.Model = was
	}
	if w.usageChunk() && !t.NoFinish {
		var timings []byte
		if w.Profile.Family == "llamacpp" {
			timings = w.told.Timings()
		}
		if !w.told.Event("", w.AppendUsageChunk(nil, w.usage(), timings)) {
			return false
		}
	}
	if w.Profile.Family == "llamacpp" { // [DONE] has a chunk of its own there
		w.stream.join(false)
	}
	if !t.NoDone && !w.told.Event("", wire.Done) {
		return false
	}
	w.stream.join(false)
	return true
}

func (w *chatWriter) usage() []byte {
	thought := 0
	for i := range w.choices {
		thought += w.choices[i].Thought
	}
	return w.Profile.AppendUsage(nil, w.told.Prompt, w.told.Spoken, w.told.Cached, min(thought, w.told.Spoken))
}

// usageChunk reports whether a chunk with usage and no choices comes last. llama.cpp has none for
// completions.
func (w *chatWriter) usageChunk() bool {
	t := w.told.Faults
	return t.Usage == fault.UsageUnasked || w.usageLast && t.Usage != fault.UsageOnFinish && !(w.Legacy && w.Profile.Family == "llamacpp")
}

func (w *chatWriter) send(c *profile.Chunk) bool {
	if w.usageEach && len(c.Usage) == 0 {
		c.Usage = w.usage()
	}
	w.stream.chunk = w.Append(w.stream.chunk[:0], c)
	return w.told.Event("", w.stream.chunk)
}

func (w *chatWriter) logprobs(ws []textgen.Word) []byte {
	if !w.Legacy {
		return profile.AppendLogprobs(nil, ws, w.q.Tops)
	}
	var tokens, values wire.Members
	for i, t := range ws {
		if i > 0 {
			tokens.Add(`,`)
			values.Add(`,`)
		}
		tokens.Add(`"`, t.Escaped, `"`)
		values.Add(`-0.25`)
	}
	return []byte(`{"text_offset":[],"tokens":[` + string(tokens) + `],"token_logprobs":[` + string(values) +
		`],"top_logprobs":null}`)
}
