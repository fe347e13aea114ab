package sim

import (
	"slices"
	"strings"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// responseState contains facts about a response that is being written.
type responseState struct {
	Faults    *fault.Effects
	ID, Model string
	Created   int64
	Now       func() int64
	Stream    bool
	Calls     []profile.ToolCall
	// numbers of tokens; Spoken and Thought grow during the response
	Prompt, Cached, Spoken, Thought int
	Timings                         func() []byte // returns llama.cpp's timings
	Event                           func(name string, data []byte) bool
}

// chatWriter writes chat completions and legacy completions. Its methods return false if the stream
// has ended.
type chatWriter struct {
	p         *profile.Profile
	legacy    bool // the request is for /v1/completions
	created   int64
	model     string
	state     *responseState
	stream    *eventWriter
	q         *generate.Request
	choices   []generate.ChoicePlan
	usageEach bool // every chunk contains usage
	usageLast bool // the client requested usage
	nullUsage bool // every chunk except the last contains "usage":null

	// JSON before and after the text of a chunk; valid while cachedCreated equals created
	cachedChunks  map[deltaKey][2]string
	cachedCreated int64 // value of created in the JSON in cachedChunks
}

// chunk is the template data for one event, which may contain a part of a choice. The string fields
// of chunk contain JSON.
type chunk struct {
	Family, Frame                           string
	Legacy, Choice, NullUsage               bool
	Index                                   int
	Delta, Finish, Stopped, Logprobs, Usage string
	Took                                    string // llama.cpp's timings
}

// delta is the template data for what one token adds to a choice.
type delta struct {
	Family, Reasoning, Kind, Before, After string
	Role, Legacy                           bool
	Text                                   string // contents of a JSON string
	Call                                   int
	// Parts of a tool call; Rest is the remaining part of the name.
	ID, Name, Rest, Args string
}

// deltaKey identifies chunks that differ only in the text of their delta.
type deltaKey struct {
	index, call int
	kind        profile.PieceKind
	first       bool
}

func newChatWriter(a *answer, legacy bool) *chatWriter {
	w := &chatWriter{
		p: a.x.p, legacy: legacy, created: a.state.Created, model: a.state.Model,
		state: &a.state, stream: &a.x.stream, q: a.q, choices: a.choices,
		usageEach: a.q.Usage.Each, usageLast: a.q.Usage.Last,
	}
	switch a.x.t.Usage {
	case fault.UsageNever:
		w.usageEach, w.usageLast = false, false
	case fault.UsageEveryChunk:
		w.usageEach = true
	}
	w.nullUsage = a.x.p.MatchesAny("sglang tgi") || a.x.p.Family == "openai" && w.usageLast
	return w
}

func (w *chatWriter) contentChunkJSON(text string) []byte {
	p := profile.Piece{Kind: profile.PieceText, Token: textgen.NewToken(text)}
	return w.renderChunk(&chunk{Choice: true, Delta: w.deltaJSON(&p, false)})
}

// beginChoice sends the opening chunk of a choice if the engine sends one.
func (w *chatWriter) beginChoice(i int, c *generate.ChoicePlan) bool {
	w.stream.shareChunk(w.p.Joins)
	if w.p.Family == "sglang" {
		w.created = w.state.Now()
	}
	if c.Opened || w.legacy || w.p.Roles != profile.RoleSeparateChunk {
		return true
	}
	c.Opened = true
	return w.send(&chunk{Choice: true, Index: i, Delta: w.p.RoleDelta})
}

func (w *chatWriter) writePiece(i int, c *generate.ChoicePlan, p profile.Piece) bool {
	if p.Kind == profile.PieceThought && w.q.ExcludeReasoning {
		return true
	}
	first := !c.Opened && !w.legacy
	c.Opened = true
	// TGI sends no separate final chunk if the text was cut off at the token limit.
	ends := w.p.Family == "tgi" && c.Left == 0 && c.Finish == "length" && !w.state.Faults.NoFinish
	if ends || w.usageEach || p.Kind == profile.PieceCompleteCall || w.q.Logprobs && p.Kind == profile.PieceText {
		return w.writeRichChunk(i, c, p, first, ends)
	}
	around := w.chunkFrame(deltaKey{i, p.Call, p.Kind, first})
	w.stream.chunk = append(append(append(w.stream.chunk[:0], around[0]...), p.Escaped...), around[1]...)
	return w.state.Event("", w.stream.chunk)
}

// writeRichChunk writes a chunk that contains more than the text of a token, such as a finish
// reason or logprobs.
func (w *chatWriter) writeRichChunk(i int, c *generate.ChoicePlan, p profile.Piece, first, ends bool) bool {
	one := chunk{Choice: true, Index: i, Delta: w.deltaJSON(&p, first)}
	if w.q.Logprobs && p.Kind == profile.PieceText {
		one.Logprobs = w.logprobsJSON([]textgen.Token{p.Token})
	}
	if ends {
		c.Closed, one.Finish = true, c.Finish
	}
	return w.send(&one)
}

// chunkFrame returns the JSON before and after the text of a chunk. It renders each distinct pair
// only once.
func (w *chatWriter) chunkFrame(key deltaKey) [2]string {
	if w.cachedCreated != w.created || w.cachedChunks == nil {
		w.cachedChunks, w.cachedCreated = map[deltaKey][2]string{}, w.created
	}
	around, known := w.cachedChunks[key]
	if !known {
		p := profile.Piece{Kind: key.kind, Call: key.call, Token: textgen.Token{Escaped: textPlaceholder}}
		text := w.renderChunk(&chunk{Choice: true, Index: key.index, Delta: w.deltaJSON(&p, key.first)})
		around[0], around[1], _ = strings.Cut(string(text), textPlaceholder)
		w.cachedChunks[key] = around
	}
	return around
}

func (w *chatWriter) endChoice(i int, c *generate.ChoicePlan) bool {
	w.stream.shareChunk(w.p.Joins) // if this choice is the last, its end shares a chunk with the usage
	end := chunk{Choice: true, Index: i, Delta: w.p.EndDelta, Finish: c.Finish, Stopped: c.Stopped}
	if w.legacy {
		end.Delta = `""`
	}
	last := allClosed(w.choices)
	if w.p.Family == "llamacpp" && last {
		if w.legacy && w.usageLast { // llama.cpp sends no usage chunk for legacy completions
			end.Usage = w.usageJSON()
		}
		if w.legacy || !w.hasUsageChunk() {
			end.Took = string(w.state.Timings())
		}
	}
	if w.state.Faults.Usage == fault.UsageOnFinish && last {
		end.Usage = w.usageJSON()
	}
	ok := w.send(&end)
	if !last {
		w.stream.shareChunk(false)
	}
	return ok
}

// endStream writes the end of the stream, which follows the choices.
func (w *chatWriter) endStream() bool {
	t := w.state.Faults
	if t.Ghost {
		was := w.model
		w.model = ""
		if !w.send(&chunk{Choice: true, Delta: `{"content":""}`}) {
			return false
		}
		w.model = was
	}
	if w.hasUsageChunk() && !t.NoFinish {
		last := chunk{Usage: w.usageJSON()}
		if w.p.Family == "llamacpp" {
			last.Took = string(w.state.Timings())
		}
		if !w.send(&last) {
			return false
		}
	}
	if w.p.Family == "llamacpp" { // llama.cpp sends [DONE] in a separate HTTP chunk
		w.stream.shareChunk(false)
	}
	if !t.NoDone && !w.state.Event("", wire.DoneData) {
		return false
	}
	w.stream.shareChunk(false)
	return true
}

// hasUsageChunk reports whether the last chunk contains usage and no choices. llama.cpp sends no
// such chunk for legacy completions.
func (w *chatWriter) hasUsageChunk() bool {
	t := w.state.Faults
	return t.Usage == fault.UsageUnrequested || w.usageLast && t.Usage != fault.UsageOnFinish && !(w.legacy && w.p.Family == "llamacpp")
}

func (w *chatWriter) send(c *chunk) bool {
	if w.usageEach && c.Usage == "" {
		c.Usage = w.usageJSON()
	}
	return w.state.Event("", w.renderChunk(c))
}

// These placeholders stand for the varying parts in a rendered template. They cannot occur in JSON.
const (
	framePlaceholder   = "\x00frame"
	textPlaceholder    = "\x00text"
	thoughtPlaceholder = "\x00thought"
	usagePlaceholder   = "\x00usage"
	tookPlaceholder    = "\x00took"
)

func markIfNotEmpty(text, mark string) string {
	if text == "" {
		return ""
	}
	return mark
}

// replacePlaceholders replaces placeholders with text. In pairs, each placeholder is followed by
// the text that replaces it.
func replacePlaceholders(form string, pairs ...string) string {
	for pair := range slices.Chunk(pairs, 2) {
		form = strings.Replace(form, pair[0], pair[1], 1)
	}
	return form
}

func (w *chatWriter) renderChunk(c *chunk) []byte {
	c.Family, c.Legacy, c.NullUsage = w.p.Family, w.legacy, w.nullUsage
	form := *c
	form.Frame, form.Usage, form.Took = framePlaceholder, markIfNotEmpty(c.Usage, usagePlaceholder), markIfNotEmpty(c.Took, tookPlaceholder)
	frame := w.envelopeMembers("chat.completion.chunk")
	// These chunks have an unlimited number of variants, so they are not cached.
	if c.Logprobs != "" || c.Stopped != "" || strings.Contains(c.Delta, `"tool_calls":[`) {
		c.Frame = frame
		return pages.RenderAnswer("chat", "chunk", c)
	}
	return []byte(replacePlaceholders(pages.RenderCached("chat", "chunk", form), framePlaceholder, frame, usagePlaceholder, c.Usage, tookPlaceholder, c.Took))
}

// envelopeMembers returns the members that every chunk and response contains. llama.cpp puts them
// at the end, and other engines at the start.
func (w *chatWriter) envelopeMembers(object string) string {
	if w.legacy {
		object = "text_completion"
	}
	var o wire.JSONBuilder
	if w.p.Family == "llamacpp" {
		o.AddRaw(`"created":`).Int(int(w.created)).AddRaw(`,"id":"`, w.state.ID, `","model":`).Quote(w.model)
		return string(*o.AddRaw(`,"system_fingerprint":"b11669-sim","object":"`, object, `"`))
	}
	o.AddRaw(`"id":"`, w.state.ID, `","object":"`, object, `","created":`).Int(int(w.created)).AddRaw(`,"model":`).Quote(w.model)
	before, after, named := strings.Cut(w.p.Extra, "%s")
	if o.AddRaw(before); named {
		o.Quote(w.model).AddRaw(after)
	}
	return string(o)
}

// deltaJSON returns the delta for one token. If the choice has no opening chunk, first must be true
// for the first delta, so that it contains the role.
func (w *chatWriter) deltaJSON(p *profile.Piece, first bool) string {
	d := delta{
		Family: w.p.Family, Reasoning: w.p.Reasoning, Role: first || w.p.Roles == profile.RoleEveryToken, Legacy: w.legacy,
		Text: p.Escaped, Call: p.Call,
	}
	d.Kind = [...]string{"text", "thought", "call", "args", "whole", "name"}[p.Kind]
	around := w.p.Around["call"]
	if p.Kind >= profile.PieceCallStart {
		c := &w.state.Calls[p.Call]
		d.ID, d.Name, d.Rest, d.Args = c.ID, c.Name, c.Name[c.Head:], c.Args
		if c.Head > 0 && p.Kind == profile.PieceCallStart {
			d.Name = c.Name[:c.Head]
		}
	} else {
		around = w.p.Around[d.Kind]
	}
	d.Before, d.After = around[0], around[1]
	if d.ID != "" {
		return string(pages.RenderAnswer("chat", "delta", d))
	}
	d.Text = textPlaceholder
	return strings.Replace(pages.RenderCached("chat", "delta", d), textPlaceholder, p.Escaped, 1)
}

func (w *chatWriter) usageJSON() string {
	thought := 0
	for i := range w.choices {
		thought += w.choices[i].Thought
	}
	var o wire.JSONBuilder
	o.AddRaw(`{"prompt_tokens":`).Int(w.state.Prompt).AddRaw(`,"total_tokens":`).Int(w.state.Prompt + w.state.Spoken)
	o.AddRaw(`,"completion_tokens":`).Int(w.state.Spoken)
	cached, reasoning := w.state.Cached, min(thought, w.state.Spoken)
	switch {
	case w.p.MatchesAny("ollama tgi lmstudio"):
	case w.p.Family == "sglang" && cached == 0:
		o.AddRaw(`,"prompt_tokens_details":null,"reasoning_tokens":`).Int(reasoning)
	case w.p.Family == "sglang":
		o.AddRaw(`,"prompt_tokens_details":{"cached_tokens":`).Int(cached).AddRaw(`},"reasoning_tokens":`).Int(reasoning)
	default:
		o.AddRaw(`,"prompt_tokens_details":{"cached_tokens":`).Int(cached).AddRaw(`}`)
		if !w.p.MatchesAny("llamacpp trtllm") {
			o.AddRaw(`,"completion_tokens_details":{"reasoning_tokens":`).Int(reasoning).AddRaw(`}`)
		}
	}
	return string(*o.AddRaw(`}`))
}

func (w *chatWriter) logprobsJSON(ws []textgen.Token) string {
	section := "logprobs"
	if w.legacy {
		section = "legacy-logprobs"
	}
	type token struct {
		Text  string
		Bytes []byte
	}
	all := make([]token, len(ws))
	for i, t := range ws {
		all[i] = token{t.Escaped, []byte(t.Text)}
	}
	return string(pages.RenderAnswer("chat", section, struct {
		Tokens []token
		Tops   int
	}{all, w.q.Tops}))
}
