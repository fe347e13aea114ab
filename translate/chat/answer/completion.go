package answer

import (
	"bytes"
	"errors"
	"strconv"

	"penstock/translate"
	"penstock/translate/chat/toolcall"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Completion is a view of a whole answer. The zero value is ready. A Completion is meant to be
// reused, by one call at a time.
//
// A Completion refers to the body from Parse until the next Parse or Reset: the body must not
// change in between.
type Completion struct {
	top                 topLevel
	first               jsonx.Value // content of the first choice
	generated           int         // how many bytes of text, reasoning and arguments, for an estimate
	finish              Finish
	edits               jsonx.Edits
	model               []byte
	usageText           []byte          // our own usage
	missing             []missingMember // missing members of the choices
	engineUsage         translate.Usage // the counts in the engine's usage
	hasCounts           bool            // engineUsage has counts
	hidesMembers        bool            // a choice has a member to remove: a private one, or a delta
	incompleteToolCalls bool            // a tool call lacks a member that clients need, or must be removed
	single              bool            // the request forbids parallel tool calls
	tools               toolcall.Assembler
}

// SingleToolCall sets whether each choice of later answers keeps only its first tool call, because
// the request forbids parallel tool calls.
func (c *Completion) SingleToolCall(single bool) { c.single = single }

// Parse reads the body of an answer with status 200. The error is a *translate.BadAnswer unless the
// body is a chat completion with at least one choice, each with a message and an end. A
// finish_reason of null is not an end: Ollama sends null with the text so far when its runner dies.
// A missing finish_reason counts as an end that the engine forgot to mark. If the engine sent an
// error instead of a completion, or aborted a choice, the BadAnswer's cause is the
// *engineerror.Error.
func (c *Completion) Parse(body []byte) error {
	c.finish, c.first = FinishNone, jsonx.Value{}
	c.generated, c.missing, c.hidesMembers, c.incompleteToolCalls = 0, c.missing[:0], false, false
	c.tools.Reset()
	c.tools.Single(c.single)
	if err := c.top.parse(body); err != nil {
		return err
	}
	if e := c.top.failure(); e != nil {
		return &translate.BadAnswer{Reason: engineError, Cause: e}
	}
	if !c.top.choices.Index(0).Exists() || !c.top.choices.IsArray() {
		return badAnswer(noChoices)
	}
	var (
		choice  Choice
		message Delta
	)
	for it := c.top.choices.Iter(); it.Next(); {
		if err := choice.ReadMessage(it.Value()); err != nil {
			var e *engineerror.Error
			if errors.As(err, &e) {
				return &translate.BadAnswer{Reason: engineError, Cause: e}
			}
			return err
		}
		message.Read(choice.Body)
		if it.Index() == 0 {
			c.first = message.Content
		}
		c.hidesMembers = c.hidesMembers || choice.private || choice.spare.IsObject()
		if it.Index() >= translate.MaxChoices {
			return badAnswer(tooManyChoices)
		}
		switch {
		case !choice.Body.IsObject():
			return badAnswer(noMessage)
		case choice.Finish.IsNull():
			return badAnswer(notFinished)
		}
		if c.finish == FinishNone {
			c.finish, _ = finishOf(choice.Finish)
		}
		if err := message.check(); err != nil {
			return err
		}
		c.generated += message.size()
		c.findMissing(it.Index(), it.Value(), &choice, &message)
	}
	c.engineUsage, c.hasCounts = readUsage(c.top.usage)
	return nil
}

// size returns how many bytes were generated, in the source's spelling.
func (d *Delta) size() int {
	n := len(d.Content.Raw()) + len(d.Refusal.Raw()) + len(d.Reasoning.Raw())
	for it := d.ToolCalls.Iter(); it.Next(); {
		n += len(it.Value().Get("function").Raw())
	}
	return n
}

// Reset releases the body, so that c can go into a pool.
func (c *Completion) Reset() {
	c.top.reset()
	c.edits.Reset()
	clear(c.missing)
	c.first = jsonx.Value{}
	c.missing, c.generated = c.missing[:0], 0
}

// Choices returns the array of choices; read its elements with Choice.ReadMessage.
func (c *Completion) Choices() jsonx.Value { return c.top.choices }

// ID returns the completion's id from the engine; it may be absent.
func (c *Completion) ID() jsonx.Value { return c.top.id }

// Usage returns the token counts. If the engine has sent none, Usage estimates one token for every
// four bytes of the completion.
func (c *Completion) Usage() translate.Usage {
	u, ok := c.engineUsage, c.hasCounts
	if !ok {
		if u, ok = readTimings(c.top.timings); !ok {
			u = translate.EstimatedUsage((c.generated + 3) / 4)
		}
	}
	u.Finish, u.CutToolCalls = c.finish, c.tools.Cut()
	return u
}

// Markup returns the kind of markup that the first choice's text begins with.
func (c *Completion) Markup() translate.Markup {
	var o translate.Opening
	o.Add(c.first)
	return o.Markup
}

var completionObject = []byte(`"object":"chat.completion"`)

// Append appends the answer for the client. It is the engine's answer, byte for byte, except that
// it has the public model, no members meant for routers, and no reasoning if the client wants none.
// Members that clients need and the engine left out are added: id, object, created,
// system_fingerprint, usage, the index, end and logprobs of a choice, the role, content and refusal
// of its message, the id, type and arguments of a tool call. A choice with tool calls ends with
// tool_calls, unless it was cut, and the tool calls' indexes count from 0. Parse must have
// succeeded before.
func (c *Completion) Append(dst []byte, a *Options) []byte {
	c.edits.Reset()
	c.model = jsonx.AppendStringS(c.model[:0], a.Model)
	addObject(&c.edits, &c.top, completionObject)
	if !c.top.fingerprint { // OpenRouter's SDK requires it
		c.edits.Add(c.top.root, nullFingerprint)
	}
	addIdentity(&c.edits, &c.top, a)
	setModel(&c.edits, &c.top, c.model)
	switch {
	case !c.top.usage.Exists():
		c.usageText = appendUsage(append(c.usageText[:0], `"usage":`...), c.Usage().WithPrompt(a.PromptTokens))
		c.edits.Add(c.top.root, c.usageText)
	case !c.hasCounts:
		c.usageText = appendUsage(c.usageText[:0], c.Usage().WithPrompt(a.PromptTokens))
		c.edits.Set(c.top.usage, c.usageText)
	default:
		BoundIn(&c.edits, c.top.usage)
	}
	BoundIn(&c.edits, c.top.timings)
	if c.top.private {
		HidePrivate(&c.edits, c.top.root)
	}
	for _, m := range c.missing {
		m.addTo(&c.edits)
	}
	if a.StripReasoning || c.hidesMembers || c.incompleteToolCalls {
		var (
			choice  Choice
			message Delta
			p       toolcall.Piece
		)
		c.tools.Reset()
		c.tools.Single(c.single)
		for it := c.top.choices.Iter(); it.Next(); {
			if choice.ReadMessage(it.Value()) != nil {
				continue
			}
			if choice.private {
				HidePrivate(&c.edits, it.Value())
			}
			if choice.spare.IsObject() {
				c.edits.Delete(choice.spare)
			}
			if a.StripReasoning {
				stripReasoning(&c.edits, choice.Body)
			}
			message.Read(choice.Body)
			for toolCalls := message.ToolCalls.Iter(); toolCalls.Next(); {
				part, ok := c.readToolCall(it.Index(), &p, toolCalls.Value())
				if part.Surplus {
					c.edits.Delete(toolCalls.Value())
					continue
				}
				if ok {
					addToolCallMembers(&c.edits, &p, &part, a.ID, it.Index())
					if wrongIndex(&p, &part) {
						c.edits.Set(p.Index, strconv.AppendInt(nil, int64(part.Position), 10))
					}
					if args := completeArguments(&p, choice.cut()); args != nil {
						setMember(&c.edits, p.Function, p.Args, "arguments", args)
					}
					if p.Args.IsString() && toolcall.HasEscapes(p.Args.Inside()) {
						text := bytes.Clone(p.Args.Raw())
						toolcall.MendEscapes(text[1:len(text)-1], true)
						c.edits.Set(p.Args, text)
					}
				}
			}
		}
	}
	start := len(dst)
	dst = c.edits.Append(dst, c.top.src)
	if c.top.lone {
		jsonx.MendLone(dst[start:])
	}
	return dst
}

// readToolCall makes p a view of a tool call in choice n, and returns which members the tool call
// lacks. It returns false if the tool call was not checked, because it is not an object or exceeds
// the limit.
func (c *Completion) readToolCall(n int, p *toolcall.Piece, v jsonx.Value) (toolcall.Part, bool) {
	if !p.Read(v) {
		return toolcall.Part{}, false
	}
	part, ok := c.tools.AddWhole(n, p)
	if ok && !p.Named() && !part.Surplus { // the tool call is whole, so no piece follows
		part.MakeID, part.NeedType = part.MakeID || !p.ID.HasText(), !p.Type.HasText()
	}
	return part, ok
}
