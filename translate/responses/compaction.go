package responses

import (
	"bytes"
	"strconv"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/jsonx"
	"penstock/translate/seal"
)

// To compact a conversation, the model writes a summary, and the edge seals the summary in an item.
// The client then sends this item instead of the conversation.

// summaryRequest is added at the end of the conversation. The text before it, including the tools,
// is the same as in the previous turn, so that the engine finds this text in its prefix cache.
const summaryRequest = `Stop working on the task now and write a summary of this conversation. ` +
	`Only your summary is kept: the model that continues sees nothing else of what is above. ` +
	`Write down, as exactly as they were given: what the user asked for, every instruction, preference and fact that the user stated, ` +
	`the decisions taken and why, names, paths, numbers and identifiers that matter, what has been done and found, ` +
	`what failed, and what remains to be done next. Include what an earlier summary says. ` +
	`Do not call tools and do not address the user: answer with the text of the summary alone.`

const summaryPrefix = `This is a summary of the conversation up to here. It stands in place of what was said:\n\n`

// compactionBox returns a box that is not bound to a model, because the client may continue the
// conversation with another model.
func compactionBox(b seal.Box) seal.Box { return b.WithModel("") }

func (c *conversationWriter) writeCompaction(i *inputItem, index int) {
	c.w.BeginMessage("user")
	c.w.WriteString(`,"content":"` + summaryPrefix)
	if out, ok := c.openCompaction(i); ok {
		c.w.Out = out
	} else if c.firstUnreadable < 0 {
		c.firstUnreadable = index
	}
	c.w.WriteString(`"}`)
}

func (c *conversationWriter) openCompaction(i *inputItem) (out []byte, ok bool) {
	blob := i.m[fieldEncryptedContentIndex]
	if c.opener == nil || !blob.HasText() {
		return nil, false
	}
	return c.opener.OpenReasoning(c.w.Out, nil, blob.AppendText(nil))
}

// unreadableCompaction returns the error for a compaction that cannot be opened. The item cannot be
// omitted, because it replaces the whole conversation.
func unreadableCompaction(n int) *requestFault {
	return &requestFault{Param: chat.ElementPath("input", n), Code: apierr.CodeCompactionUnreadable, Text: "is a compaction that " +
		"cannot be read here: it was made for another key or by another service, its key is no longer in use, or it was changed. " +
		"Send the conversation that it stands for, or begin a new one"}
}

func noCompactionError(input jsonx.Value) *requestFault {
	n := 0
	for it := input.Iter(); it.Next(); n = it.Index() {
	}
	return chat.UnsupportedError(chat.ElementPath("input", n), NoCompactionText)
}

// NoCompactionText is the error text that says why an edge does not compact conversations.
const NoCompactionText = "Conversations are not compacted here: the operator has to set seal.keys, which seal the summary"

// removeForSummary removes the members that would truncate a summary or change its format.
func (m *memberValues) removeForSummary() {
	for _, i := range [...]int{
		memberMaxOutputTokensIndex, memberMaxTokensIndex, memberMaxCompletionTokensIndex, memberTextIndex, memberResponseFormatIndex, memberIncludeIndex,
		memberLogprobsIndex, memberTopLogprobsIndex, memberStopIndex, memberNIndex,
	} {
		m[i] = jsonx.Value{}
	}
}

// checkSummary returns an error if the answer is not a complete summary, because the client will
// discard the conversation.
func (o *answerOutput) checkSummary() error {
	switch {
	case !o.isSummary:
		return nil
	case o.incompleteReason() != "":
		return &translate.BadAnswerError{Reason: "a summary that was cut"}
	case len(o.parts) != 1 || o.parts[0].kind != kindCompaction || len(bytes.TrimSpace(o.parts[0].unsealed)) == 0:
		return &translate.BadAnswerError{Reason: "an answer that is no summary"}
	case len(o.parts[0].unsealed) > seal.MaxText:
		return &translate.BadAnswerError{Reason: "a summary of more than " + strconv.Itoa(seal.MaxText>>10) + " KiB"}
	}
	return nil
}

// AppendCompaction appends the compaction object for a completion. The error is a
// *translate.BadAnswerError. Source: OpenAI's API reference, POST /responses/compact.
func (s *Stream) AppendCompaction(dst []byte, c *answer.ChatCompletion) ([]byte, error) {
	if err := s.readCompletion(c); err != nil {
		return dst, err
	}
	dst = append(append(dst, `{"id":"resp_`...), s.identity.ID...)
	dst = appendInt(append(dst, `","object":"response.compaction","created_at":`...), int(s.identity.Created))
	dst = s.output.appendItems(append(dst, `,"output":[`...))
	dst = appendUsage(append(dst, `],"usage":`...), s.output.reader.Usage())
	return append(dst, '}'), nil
}

// AppendInputTokens appends the response with a prompt's token count. Source: OpenAI's API
// reference, POST /responses/input_tokens.
func AppendInputTokens(dst []byte, tokens int) []byte {
	return append(appendInt(append(dst, `{"object":"response.input_tokens","input_tokens":`...), tokens), '}')
}
