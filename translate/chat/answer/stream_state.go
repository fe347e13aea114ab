package answer

import (
	"bytes"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// streamState stores the choices so far and the token counts. Stream, Assembler and Reader share
// it.
type streamState struct {
	seenChoices, finishedChoices [translate.MaxChoices / 64]uint64

	deltas         int // number of deltas that contain text or tool calls
	generatedBytes int // bytes of text, reasoning and tool calls
	usage          usageCounts
	bytesAtUsage   int              // generatedBytes when usage or earlierUsage was set
	promptEstimate int              // in tokens
	earlierUsage   *translate.Usage // usage of earlier engines in a resumed answer; otherwise nil
	perChoice      *usagePerChoice  // nil before usage first arrives; see getOrCreatePerChoice
	choicesSeen    uint8
	unfinished     uint8  // number of the seen choices that have not ended
	finish         Finish // how the first choice to end has ended
	usageFinal     bool   // every choice has ended and the usage chunk has arrived; only [DONE] is missing
	ended          bool   // [DONE] has arrived, or an unusable event after a complete answer
}

// allFinished reports whether at least n choices have arrived and all of them have a finish_reason.
// If the engine has ended the stream, fewer choices are enough, because some engines ignore n and
// return one choice.
func (t *streamState) allFinished(n int) bool {
	return t.unfinished == 0 && t.choicesSeen > 0 && (t.ended || int(t.choicesSeen) >= n)
}

func (t *streamState) isDone(n int) bool {
	return t.ended || t.usageFinal && t.allFinished(n)
}

// recordChoice records a choice of a chunk, and reports whether this is the choice's first chunk.
func (t *streamState) recordChoice(c *Choice) (first bool) {
	finish := FinishNone
	if c.HasFinished() {
		finish, _ = parseFinish(c.Finish)
	}
	return t.recordDelta(c.Index, finish)
}

// recordDelta does the same as recordChoice for choice n. FinishNone means that the choice has not
// ended.
func (t *streamState) recordDelta(n int, finish Finish) (first bool) {
	word, bit := n/64, uint64(1)<<(n%64)
	if first = t.seenChoices[word]&bit == 0; first {
		t.seenChoices[word] |= bit
		t.choicesSeen++
		t.unfinished++
	}
	if finish != FinishNone && t.finishedChoices[word]&bit == 0 {
		t.finishedChoices[word] |= bit
		t.unfinished--
		if t.finish == FinishNone {
			t.finish = finish
		}
	}
	return first
}

// recordOutput records a delta that contains n bytes of text or tool calls.
func (t *streamState) recordOutput(n int) {
	t.deltas++
	t.generatedBytes += n
}

// tokensSince estimates the tokens in the bytes since an earlier value of generatedBytes.
func (t *streamState) tokensSince(earlier int) int {
	return translate.TokensInBytes(t.generatedBytes - earlier)
}

func (t *streamState) hasFinished(n int) bool { return t.finishedChoices[n/64]&(1<<(n%64)) != 0 }

// recordUsage records the chunk's counts, and reports whether its `usage` has any. `timings` never
// overwrite `usage`, because they cover only one choice.
func (t *streamState) recordUsage(c *Chunk) bool {
	if u, ok := readUsage(c.usage); ok {
		only := c.choices.Index(0)
		switch {
		case t.isResumed():
			t.usage = t.withEarlierUsage(u)
		case !only.Exists():
			t.usage = t.getOrCreatePerChoice().addChunk(u, int(t.choicesSeen-t.unfinished))
		default:
			t.usage = t.getOrCreatePerChoice().addChoice(u, c, only)
		}
		t.usageFinal = t.allFinished(0) && !only.Exists()
		t.bytesAtUsage = t.generatedBytes
		return true
	}
	if u, ok := readTimings(c.timings); ok && (!t.usage.Known || t.usage.fromTimings) {
		if t.usage = (usageCounts{Usage: u, fromTimings: true}); t.isResumed() {
			t.usage = t.withEarlierUsage(u)
			t.usage.fromTimings = true
		}
		t.bytesAtUsage = t.generatedBytes
	}
	return false
}

// getOrCreatePerChoice returns perChoice, which most streams need only at their end.
func (t *streamState) getOrCreatePerChoice() *usagePerChoice {
	if t.perChoice == nil {
		t.perChoice = new(usagePerChoice)
	}
	return t.perChoice
}

// usagePerChoice adds up the usage if an engine counts each choice separately.
type usagePerChoice struct {
	chunks  usageCounts
	count   int
	choices usageCounts // sum of the usages in chunks that end a choice
	counted [translate.MaxChoices / 64]uint64
}

type usageCounts struct {
	translate.Usage

	fromTimings bool // the counts come from timings
	summed      bool // the counts are a sum over choices
}

// plus adds the counts of another choice. All choices have the same prompt. If p has no counts,
// plus returns u.
func (p usageCounts) plus(u translate.Usage) usageCounts {
	if !p.Known {
		return usageCounts{Usage: u}
	}
	return usageCounts{Usage: p.Usage.Plus(u), summed: true}
}

// addChunk reads the usage in a chunk without choices. finished is the number of choices that ended
// before this chunk. llama.cpp sends such a chunk after the end of each choice, with the counts of
// that choice. Other engines send one chunk at the end, with the counts of all choices.
func (p *usagePerChoice) addChunk(u translate.Usage, finished int) usageCounts {
	if p.count++; p.count != finished || p.count == 1 {
		p.chunks = usageCounts{Usage: u}
	} else {
		p.chunks = p.chunks.plus(u)
	}
	return p.chunks
}

func (p *usagePerChoice) addChoice(u translate.Usage, c *Chunk, first jsonx.Value) usageCounts {
	index, ok := first.Get("index").Int()
	if !ok {
		index = 0
	}
	if c.choices.Index(1).Exists() || index < 0 || index >= translate.MaxChoices ||
		p.counted[index/64]&(1<<(index%64)) != 0 {
		return usageCounts{Usage: u}
	}
	sum := p.choices.plus(u)
	if first.Get("finish_reason").HasText() {
		p.choices = sum
		p.counted[index/64] |= 1 << (index % 64)
	}
	return sum
}

// usageSoFar returns the usage so far, or an estimate if the engine has sent no counts.
func (t *streamState) usageSoFar() translate.Usage {
	u := t.countsSoFar()
	u.Finish = t.finish
	return u
}

func (t *streamState) countsSoFar() translate.Usage {
	switch u := t.usage; {
	case u.Known && u.fromTimings && t.choicesSeen > 1: // the counts cover only the last choice
		u.Completion = max(u.Completion, t.deltas)
		u.Total = u.Prompt + u.Completion
		return u.Usage
	case u.Known && t.unfinished > 0: // part of the answer may have arrived after the counts
		u.PartlyEstimated = t.generatedBytes > t.bytesAtUsage
		u.Completion = max(u.Completion+t.tokensSince(t.bytesAtUsage), t.deltas)
		u.Reconcile()
		return u.Usage
	case u.Known:
		if u.Completion == 0 {
			u.TextTokens = max(u.TextTokens, t.deltas, t.tokensSince(0))
		}
		return u.Usage
	}
	tokens, b := t.tokensSince(t.bytesAtUsage), t.earlierUsage
	if b != nil {
		tokens += b.Completion
	}
	u := translate.EstimateUsage(max(t.deltas, tokens)).WithPrompt(t.promptEstimate)
	if b != nil { // the next engine's prompt includes the answer so far
		u.Resumed, u.ResumedPrompt = b.Resumed, min(b.ResumedPrompt+t.promptEstimate+b.Completion, translate.MaxCount)
	}
	return u
}

type eventKind uint8

const (
	eventChunk eventKind = iota
	eventIgnored
	eventDone
	eventError
)

var (
	doneData       = []byte("[DONE]")
	errorEventName = []byte("error")
)

// classifyEvent returns the kind of an event. The edge ignores blank events, as clients do.
func classifyEvent(ev sse.Event) eventKind {
	if len(ev.Data) > 0 && ev.Data[0] == '{' && len(ev.Name) == 0 {
		return eventChunk
	}
	switch data := bytes.TrimSpace(ev.Data); {
	case bytes.Equal(ev.Name, errorEventName):
		return eventError
	case bytes.Equal(data, doneData):
		return eventDone
	case ev.IsBlank():
		return eventIgnored
	}
	return eventChunk
}

// parseEvent parses an event. It reports whether the event is a chunk that is not empty. If the
// answer is already complete, an error or a malformed event only ends the stream.
func (t *streamState) parseEvent(c *Chunk, ev sse.Event, n int) (bool, error) {
	if t.isDone(n) {
		return false, nil
	}
	var err error
	switch classifyEvent(ev) {
	case eventChunk:
		if err = c.Parse(ev.Data); err == nil {
			return !c.isEmpty(), nil
		}
	case eventIgnored:
		return false, nil
	case eventDone:
		t.ended = true
		return false, nil
	case eventError:
		e := engineerror.ParseErrorBody(0, "", ev.Data)
		err = &e
	}
	if t.allFinished(n) {
		t.ended = true
		return false, nil
	}
	return false, err
}
