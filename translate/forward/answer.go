package forward

import (
	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// Answer is a view of the JSON body passed to Parse. The zero value is ready for use.
type Answer struct {
	Vectors VectorForm

	body       []byte
	doc        jsonx.Doc
	model      jsonx.Value
	usageValue jsonx.Value // the usage member as received
	created    jsonx.Value
	usage      translate.Usage
	texts      completionTexts
	edits      jsonx.Edits
}

// Reasons for a *translate.BadAnswerError in this package.
const (
	reasonEngineError = "an error in place of an answer"
	reasonNotFinished = "a choice whose finish_reason is null"
	reasonNoChoices   = "no choices"
)

// Answers and events are indexed to these depths. A transcript's deltas are one level deeper.
const (
	answerIndexDepth     = 3
	eventIndexDepth      = 3
	transcriptIndexDepth = 4
)

// Parse reads the body of a response with status 200, and rewrites embeddings to the format in
// Vectors. If the body is not a JSON object, or is an aborted completion, the error is a
// *translate.BadAnswerError. If the engine sent an error, the BadAnswerError's cause is the
// *engineerror.Error.
func (a *Answer) Parse(body []byte) error {
	a.body, a.usage, a.texts = body, translate.Usage{}, completionTexts{}
	if len(body) > translate.MaxAnswerBytes {
		return &translate.BadAnswerError{Reason: translate.ReasonTooLarge}
	}
	if err := a.doc.Parse(body, jsonx.Options{Record: answerIndexDepth}); err != nil {
		return &translate.BadAnswerError{Reason: translate.ReasonBadJSON}
	}
	root := a.doc.Root()
	if !root.IsObject() {
		return &translate.BadAnswerError{Reason: translate.ReasonNotObject}
	}
	var out [6]jsonx.Value
	if err := root.Fields([]string{"model", "usage", "error", "object", "created", "timings"}, out[:]); err != nil {
		return &translate.BadAnswerError{Reason: translate.ReasonDuplicateMember}
	}
	if chat.IsGiven(out[2]) || out[3].EqualText("error") {
		e := engineerror.ParseErrorBody(200, "application/json", body)
		return &translate.BadAnswerError{Reason: reasonEngineError, Cause: &e}
	}
	a.edits.Reset()
	for it := choicesIter(root); it.Next(); {
		finish := it.Value().Get("finish_reason")
		if finish.IsNull() {
			return &translate.BadAnswerError{Reason: reasonNotFinished}
		}
		if replaceFinish(&a.edits, finish) {
			return &translate.BadAnswerError{Reason: reasonEngineError, Cause: answer.AbortedError()}
		}
		if text := it.Value().Get("text"); text.IsString() {
			a.texts.count++
			a.texts.bytes += len(text.RawContents())
		}
	}
	a.model, a.usageValue, a.created = out[0], out[1], out[4]
	a.usage, _ = readUsage(out[1])
	a.texts.hasTimings = out[5].IsObject()
	if a.Vectors != VectorsAsSent {
		return a.rewriteVectors(root)
	}
	return nil
}

// rewriteVectors records the changes to the embeddings, which are at data[].embedding.
func (a *Answer) rewriteVectors(root jsonx.Value) error {
	var v vectorRewriter
	for members := root.Iter(); members.Next(); {
		if !members.Key().Equals("data") || !members.Value().IsArray() {
			continue
		}
		for elements := members.Value().Iter(); elements.Next(); {
			if !elements.Value().IsObject() {
				continue
			}
			for it := elements.Value().Iter(); it.Next(); {
				raw := it.Value().Raw()
				if it.Key().Equals("embedding") && v.begin(a.Vectors, raw[0]) {
					a.edits.Set(it.Value(), v.end(v.append(make([]byte, 0, len(raw)), raw)))
				}
			}
		}
	}
	return v.err()
}

// CheckChoices returns a *translate.BadAnswerError for a completion without choices.
func (a *Answer) CheckChoices() error {
	if it := choicesIter(a.doc.Root()); !it.Next() {
		return &translate.BadAnswerError{Reason: reasonNoChoices}
	}
	return nil
}

// CheckText returns a *translate.BadAnswerError for a transcript whose text is missing.
func (a *Answer) CheckText() error {
	if !a.doc.Root().Get("text").IsString() {
		return &translate.BadAnswerError{Reason: reasonNoText}
	}
	return nil
}

// Usage returns the engine's token counts or, for a completion, an estimate.
func (a *Answer) Usage() translate.Usage { return a.texts.usageOrEstimate(a.usage) }

// Append appends the answer as received, with these changes:
//   - If the answer names a model, the name is replaced with the given model.
//   - Private members are removed.
//   - Numbers in the usage and the timestamp are limited to their valid ranges.
//   - Embeddings are written in the format in Vectors.
//
// Append must be called exactly once after Parse.
func (a *Answer) Append(dst []byte, model string) []byte {
	if a.model.Exists() {
		a.edits.Set(a.model, jsonx.AppendStringS(nil, model))
	}
	removePrivateMembers(&a.edits, a.doc.Root())
	boundNumbers(&a.edits, a.usageValue, a.created)
	return a.edits.Append(dst, a.body)
}

// replaceFinish replaces a finish_reason that OpenAI does not define, because typed clients would
// reject it. failed is true if the engine aborted the choice.
func replaceFinish(edits *jsonx.Edits, finish jsonx.Value) (failed bool) {
	word, failed := answer.ReplaceLegacyFinish(finish)
	if word != nil {
		edits.Set(finish, word)
	}
	return failed
}

func boundNumbers(edits *jsonx.Edits, usage, created jsonx.Value) {
	answer.BoundNumbersIn(edits, usage)
	if b := answer.BoundCreated(created); b != nil {
		edits.Set(created, b)
	}
}

func choicesIter(root jsonx.Value) jsonx.Iter {
	if list := root.Get("choices"); list.IsArray() {
		return list.Iter()
	}
	return jsonx.Iter{}
}

func removePrivateMembers(edits *jsonx.Edits, root jsonx.Value) {
	answer.RemovePrivateMembers(edits, root)
	for it := choicesIter(root); it.Next(); {
		answer.RemovePrivateMembers(edits, it.Value())
	}
}
