package answer

import (
	"sync"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// head is the top level that a chunk and a completion have in common.
type head struct {
	doc jsonx.Doc
	src []byte

	root, id, object, created, model, choices, usage, timings, errv jsonx.Value

	progress    bool // llama.cpp's prompt_progress is there
	fingerprint bool // system_fingerprint is there
	lone        bool // a string holds half of a surrogate pair
	private     bool // a member is there that is no client's to see, see isPrivate
}

// parse validates data and finds its members. data is borrowed until the next parse or reset.
func (h *head) parse(data []byte) error {
	h.root, h.id, h.object, h.created, h.model = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.choices, h.usage, h.timings, h.errv = jsonx.Value{}, jsonx.Value{}, jsonx.Value{}, jsonx.Value{}
	h.progress, h.private, h.fingerprint, h.lone, h.src = false, false, false, false, data
	if len(data) > translate.MaxAnswer {
		return badAnswer(translate.TooLarge)
	}
	err := h.doc.Parse(data, jsonx.Options{Record: recordDepth, Paired: true})
	if err != nil && jsonx.IsLone(err) {
		h.lone = true
		err = h.doc.Parse(data, jsonx.Options{Record: recordDepth})
	}
	if err != nil {
		return badSyntax(err)
	}
	h.root = h.doc.Root()
	if !h.root.IsObject() {
		return badAnswer(translate.NotObject)
	}
	for it := h.root.Iter(); it.Next(); {
		name := it.Key().Name()
		at := h.member(name)
		if at == nil {
			h.private = h.private || isPrivate(name) && !it.Value().IsNull()
			continue
		}
		// Two readers could take a different one each: refused, rather than to bill one and to show
		// the other.
		if at.Exists() {
			return badAnswer(translate.DuplicateMember)
		}
		*at = it.Value()
	}
	return nil
}

// member returns where the value of the member is kept, nil if it is none that we read.
func (h *head) member(name []byte) *jsonx.Value {
	switch string(name) {
	case "id":
		return &h.id
	case "object":
		return &h.object
	case "created":
		return &h.created
	case "model":
		return &h.model
	case "choices":
		return &h.choices
	case "usage":
		return &h.usage
	case "timings":
		return &h.timings
	case "error":
		return &h.errv
	case "prompt_progress":
		h.progress = true
	case "system_fingerprint":
		h.fingerprint = true
	}
	return nil
}

// isPrivate reports whether a member of an answer, or of a choice, is meant for a router between
// engines: it holds addresses of engines and handles of their memory (vLLM, TensorRT-LLM). Null
// holds none.
func isPrivate(name []byte) bool {
	return string(name) == "kv_transfer_params" || string(name) == "disaggregated_params"
}

// IsPrivate reports whether a member of that name, unless it is null, is removed by HidePrivate.
func IsPrivate(name []byte) bool { return isPrivate(name) }

// HidePrivate notes the removal of the members of an answer, or of a choice, by which engines speak
// to each other.
func HidePrivate(edits *jsonx.Edits, v jsonx.Value) {
	for it := v.Iter(); it.Next(); {
		if isPrivate(it.Key().Name()) && !it.Value().IsNull() {
			edits.Delete(it.Value())
		}
	}
}

// reset lets go of the source, for a pool.
func (h *head) reset() {
	*h = head{doc: h.doc}
	h.doc.Reset()
}

// failure returns the engine's error that stands in the place of an answer, nil when there is none:
// a truthy member `error` (the openai SDK throws on any), or the flat shape of SGLang and of older
// vLLM.
func (h *head) failure() *engineerror.Error {
	if !engineerror.Truthy(h.errv) && (h.choices.Exists() || !h.object.EqualText("error")) {
		return nil
	}
	e := engineerror.ReadObject(h.root)
	return &e
}

// Chunk is a view of one chunk of a chat stream. The zero value is ready; it is meant to be reused.
//
// What is read of it borrows from the event's data and is valid until the next Parse.
type Chunk struct{ head }

// chunkPool lends the chunk that an event is read into: a stream needs one only while it reads, and
// most events are read without one (see template), so a stream that waits holds none.
var chunkPool = sync.Pool{New: func() any { return new(Chunk) }}

// giveBack returns c, of which nothing is needed any more, to the pool.
func (c *Chunk) giveBack() {
	c.reset()
	chunkPool.Put(c)
}

// Parse reads the data of one event. The error is a *BadAnswer when it is no chunk, an *engineerror.Error
// when the engine reports a failure in place of one. A chunk without choices is one if it has usage
// or prompt_progress.
func (c *Chunk) Parse(data []byte) error {
	if err := c.parse(data); err != nil {
		return err
	}
	if e := c.failure(); e != nil {
		return e
	}
	if !c.choices.IsArray() && (c.choices.Exists() && !c.choices.IsNull() || !c.usage.IsObject() && !c.progress) {
		return badAnswer(noChoices)
	}
	return nil
}

// Choice is a view of one choice of a chunk or of a completion.
type Choice struct {
	Index    int
	Numbered bool // the engine gave the index
	// Body is the delta of a chunk or the message of a completion; see Delta. Absent or null if the
	// engine left it out. One that has the other's name is taken for it where there is no other.
	Body jsonx.Value
	// Finish is finish_reason; absent, null and "" all mean that the choice goes on. See Finished.
	Finish jsonx.Value
	// Stop is what made the engine stop if it says so (vLLM stop_reason, SGLang matched_stop): a
	// string is the stop sequence, a number is a token id.
	Stop     jsonx.Value
	Logprobs jsonx.Value
	private  bool // see isPrivate

	piece, message jsonx.Value // the members delta and message
	spare          jsonx.Value // what is not the Body of the two
}

// ReadDelta reads an element of a chunk's choices. Only the last chunk of a choice may lack the
// delta. The errors are those of ReadMessage.
func (c *Choice) ReadDelta(v jsonx.Value) error {
	if err := c.read(v); err != nil {
		return err
	}
	c.choose(c.piece, c.message)
	if c.Body.IsObject() || c.Finished() && (c.Body.IsNull() || !c.Body.Exists()) {
		return nil
	}
	return badAnswer(noDelta)
}

// ReadMessage reads an element of a completion's choices. The error is a *BadAnswer, or an
// *engineerror.Error for a choice that the engine gave up ("abort" of SGLang and vLLM, "error").
func (c *Choice) ReadMessage(v jsonx.Value) error {
	err := c.read(v)
	c.choose(c.message, c.piece)
	return err
}

func (c *Choice) read(v jsonx.Value) error {
	*c = Choice{}
	if !v.IsObject() {
		return badAnswer(badChoice)
	}
	for it := v.Iter(); it.Next(); {
		name := it.Key().Name()
		known, err := c.member(name, it.Value())
		if err != nil {
			return err
		}
		c.private = c.private || !known && isPrivate(name) && !it.Value().IsNull()
	}
	if c.Finished() && (c.Finish.EqualText("abort") || c.Finish.EqualText("error")) {
		return &engineerror.Error{Type: "generation_aborted"}
	}
	return nil
}

// choose makes first the Body, or second where first is no object and second is: some engines fill
// one type for chunks and completions, and give the member that is not meant as null or as what
// there is so far.
func (c *Choice) choose(first, second jsonx.Value) {
	if !first.IsObject() && second.IsObject() {
		first, second = second, first
	}
	c.Body, c.spare = first, second
}

// check refuses texts and tool calls that no client could read. A text may be null or left out, and
// content a list of parts.
func (d *Delta) check() error {
	for _, text := range [...]jsonx.Value{d.Content, d.Refusal} {
		switch text.Kind() {
		case jsonx.Number, jsonx.True, jsonx.False, jsonx.Object:
			return badAnswer(notText)
		}
	}
	if toolCalls := d.ToolCalls; toolCalls.Exists() && !toolCalls.IsArray() && !toolCalls.IsNull() {
		return badAnswer(badToolCall)
	}
	return nil
}

// member takes one member and reports whether it is one that we read.
func (c *Choice) member(name []byte, v jsonx.Value) (known bool, err error) {
	switch string(name) {
	case "index":
		n, ok := v.Int()
		switch {
		case v.IsNull():
		case !ok || n < 0:
			return true, badAnswer(badChoice)
		case n >= translate.MaxChoices:
			return true, badAnswer(tooManyChoices)
		default:
			c.Index, c.Numbered = int(n), true
		}
	case "delta":
		c.piece = v
	case "message":
		c.message = v
	case "finish_reason":
		c.Finish = v
	case "stop_reason", "matched_stop":
		if !v.IsNull() {
			c.Stop = v
		}
	case "logprobs":
		c.Logprobs = v
	default:
		return false, nil
	}
	return true, nil
}

// Finished reports whether the choice has a finish_reason.
func (c *Choice) Finished() bool {
	return c.Finish.IsString() && c.Finish.End()-c.Finish.Start() > 2
}

// Delta is a view of a delta, or of a message, which has the same members.
type Delta struct {
	Role, Content, Refusal jsonx.Value
	// Reasoning is the member of that name, or reasoning_content, or what is not empty of the two.
	Reasoning jsonx.Value
	ToolCalls jsonx.Value
}

// Read reads the Body of a Choice. Whatever is no object has no members.
func (d *Delta) Read(v jsonx.Value) {
	*d = Delta{}
	for it := v.Iter(); it.Next(); {
		d.member(it.Key().Name(), it.Value())
	}
}

// member takes one member.
func (d *Delta) member(name []byte, v jsonx.Value) {
	switch string(name) {
	case "role":
		d.Role = v
	case "content":
		d.Content = v
	case "refusal":
		d.Refusal = v
	case "reasoning", "reasoning_content":
		if !d.Reasoning.HasText() {
			d.Reasoning = v
		}
	case "tool_calls":
		d.ToolCalls = v
	}
}

// Generated reports whether the delta carries something that the model generated.
func (d *Delta) Generated() bool { return d.Visible() || d.Reasoning.HasText() }

// Visible reports whether the delta carries something other than reasoning that the model
// generated.
func (d *Delta) Visible() bool {
	return d.Content.HasText() || d.Refusal.HasText() || d.ToolCalls.Index(0).Exists()
}
