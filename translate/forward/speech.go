package forward

import (
	"encoding/base64"
	"fmt"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
	"penstock/translate/sse"
)

// Some engines send the events of OpenAI's speech API (speech.audio.delta, and speech.audio.done at
// the end). For all other engines, the edge converts the audio to these events.

type speechAudio struct {
	isSpeech     bool
	hasAudio     bool
	doneSent     bool
	bodyComplete bool   // the body is complete
	unsentBytes  []byte // the end of the last piece; sent with the next piece
}

const (
	speechDelta = "speech.audio.delta"
	speechDone  = "speech.audio.done"
	speechError = "speech.audio.error" // the error event of vLLM-Omni

	// zeroSpeechUsage replaces unknown counts, because clients require usage.
	zeroSpeechUsage = `{"input_tokens":0,"output_tokens":0,"total_tokens":0}`

	speechUsageFormat = `{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}`

	// The size of every delta except the last is a multiple of deltaAlignBytes bytes, so a delta neither
	// splits a 16-bit sample nor needs padding.
	deltaAlignBytes = 6

	reasonNoAudio        = "no sound"
	reasonAudioNotBase64 = "sound that is not base64"
)

// MarkSpeech marks the answer as speech. Call it after Reset.
func (s *Stream) MarkSpeech() { s.speech.isSpeech = true }

// checkEvent checks that the audio is valid base64 (possibly empty), and replaces invalid counts.
func (a *speechAudio) checkEvent(edits *jsonx.Edits, root, kind jsonx.Value, usage *jsonx.Value) error {
	switch {
	case kind.EqualText(speechDone):
		a.doneSent = true
		if chat.IsGiven(*usage) && !hasTokenCounts(*usage) {
			u, _ := readUsage(*usage)
			edits.Set(*usage, fmt.Appendf(nil, speechUsageFormat, u.Prompt, u.Completion, u.Total))
			*usage = jsonx.Value{}
		}
	case kind.EqualText(speechDelta):
		audio := root.Get("audio")
		text, plain := audio.Text()
		if !plain {
			text = audio.AppendText(nil)
		}
		if !audio.IsString() || len(text) > 0 && !chat.IsBase64(text) {
			return &translate.BadAnswerError{Reason: reasonAudioNotBase64}
		}
		a.hasAudio = true
	}
	return nil
}

func hasTokenCounts(usage jsonx.Value) bool {
	for _, name := range [...]string{"input_tokens", "output_tokens", "total_tokens"} {
		if n, ok := usage.Get(name).Int(); !ok || n < 0 {
			return false
		}
	}
	return true
}

// AppendAudio appends the event for a piece of an engine's audio.
func (s *Stream) AppendAudio(dst, piece []byte) []byte {
	a := &s.speech
	a.hasAudio = a.hasAudio || len(piece) > 0
	n := len(a.unsentBytes) + len(piece)
	n -= n % deltaAlignBytes
	if n == 0 {
		a.unsentBytes = append(a.unsentBytes, piece...)
		return dst
	}
	s.eventCount++
	fresh := piece[:n-len(a.unsentBytes)]
	dst = appendSoundEvent(dst, a.unsentBytes, fresh)
	a.unsentBytes = append(a.unsentBytes[:0], piece[len(fresh):]...)
	return dst
}

// appendSoundEvent appends one delta. head is shorter than deltaAlignBytes, and tail is long enough to
// complete the unit.
func appendSoundEvent(dst, head, tail []byte) []byte {
	dst = append(dst, `data: {"type":"`+speechDelta+`","audio":"`...)
	if len(head) > 0 {
		var unit [deltaAlignBytes]byte
		n := copy(unit[:], head)
		m := copy(unit[n:], tail)
		dst, tail = base64.StdEncoding.AppendEncode(dst, unit[:n+m]), tail[m:]
	}
	dst = base64.StdEncoding.AppendEncode(dst, tail)
	return append(dst, "\"}\n\n"...)
}

// appendEnd appends the rest of the audio and the event that ends the speech. It returns an error
// if the engine stopped too early, because half an audio file looks like a whole one.
func (a *speechAudio) appendEnd(dst []byte, mark bool) ([]byte, error) {
	switch {
	case a.doneSent:
		return dst, nil
	case !a.hasAudio:
		return dst, &translate.BadAnswerError{Reason: reasonNoAudio}
	case !a.bodyComplete && !mark:
		return dst, translate.ErrNoFinish
	}
	a.doneSent = true
	if len(a.unsentBytes) > 0 {
		dst = appendSoundEvent(dst, nil, a.unsentBytes)
	}
	return sse.AppendEvent(dst, "", []byte(`{"type":"`+speechDone+`","usage":`+zeroSpeechUsage+`}`)), nil
}
