package forward

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

func speechStream() *Stream {
	s := new(Stream)
	s.Reset("public", 0)
	s.MarkSpeech()
	return s
}

// TestSound checks that all bytes of the engine's audio arrive, however they are split. Each delta
// contains whole samples. Clients can decode the deltas one by one or join their base64 text.
func TestSound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 1, 20).Draw(t, "pieces")
		s, all := speechStream(), bytes.Join(pieces, nil)
		var out []byte
		for _, p := range pieces {
			before := s.eventCount
			if out = s.AppendAudio(out, p); s.HasStarted() != (len(out) > 0) || s.eventCount-before > 1 {
				t.Fatalf("%d events, started %v", s.eventCount, s.HasStarted())
			}
		}
		s.MarkEnded()
		out, err := s.Finish(out)
		if len(all) == 0 {
			if err == nil {
				t.Fatal("silence was taken for sound")
			}
			return
		}
		if err != nil || !s.IsFinished() {
			t.Fatal(err)
		}
		var sound, text []byte
		events := strings.Split(strings.TrimSuffix(string(out), "\n\n"), "\n\n")
		for i, ev := range events {
			var e struct {
				Type, Audio string
				Usage       *struct {
					Total *int `json:"total_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(strings.TrimPrefix(ev, "data: ")), &e); err != nil {
				t.Fatal(err)
			}
			if i == len(events)-1 {
				if e.Type != speechDone || e.Usage == nil || e.Usage.Total == nil {
					t.Fatalf("the end is %s", ev)
				}
				continue
			}
			b, err := base64.StdEncoding.DecodeString(e.Audio)
			if err != nil || e.Type != speechDelta || len(b) == 0 || i < len(events)-2 && len(b)%deltaAlignBytes != 0 {
				t.Fatalf("%s: error %v, want a delta with whole units", ev, err)
			}
			sound, text = append(sound, b...), append(text, e.Audio...)
		}
		joined, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil || !bytes.Equal(sound, all) || !bytes.Equal(joined, all) {
			t.Fatalf("%x became %x, joined %x, %v", all, sound, joined, err)
		}
	})
}

// TestSpeechEvents checks that events from an engine are passed on, and that the stream is complete
// only if the engine sent its last event.
func TestSpeechEvents(t *testing.T) {
	t.Parallel()
	const (
		delta = `{"type":"speech.audio.delta","audio":"AAAA","model":"inner"}`
		done  = `{"type":"speech.audio.done","usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}`
		shown = `data: {"type":"speech.audio.delta","audio":"AAAA","model":"public"}` + "\n\n"
		end   = `data: {"type":"speech.audio.done","usage":` + zeroSpeechUsage + `}` + "\n\n"
	)
	for name, c := range map[string]struct {
		events []string
		framed bool
		want   string
		err    error
	}{
		"by the book":         {[]string{delta, done}, false, shown + "data: " + done + "\n\n", nil},
		"with a mark":         {[]string{delta, done, "[DONE]"}, false, shown + "data: " + done + "\n\ndata: [DONE]\n\n", nil},
		"without an end":      {[]string{delta}, true, shown + end, nil},
		"a mark for an end":   {[]string{delta, "[DONE]"}, false, shown + end + "data: [DONE]\n\n", nil},
		"cut":                 {[]string{delta}, false, shown, translate.ErrNoFinish},
		"nothing but a mark":  {[]string{"[DONE]"}, true, "", new(translate.BadAnswerError)},
		"an error":            {[]string{delta, `{"error":{"message":"out of memory"}}`}, true, shown, new(engineerror.Error)},
		"an error of its own": {[]string{`{"type":"speech.audio.error","message":"out of memory"}`}, true, "", new(engineerror.Error)},
		"no base64":           {[]string{delta, `{"type":"speech.audio.delta","audio":"!!!notb64"}`}, true, shown, new(translate.BadAnswerError)},
		"half of base64":      {[]string{delta, `{"type":"speech.audio.delta","audio":"AAA"}`}, true, shown, new(translate.BadAnswerError)},
		"no text":             {[]string{`{"type":"speech.audio.delta","audio":7}`, done}, true, "", new(translate.BadAnswerError)},
		"no sound in a piece": {[]string{`{"type":"speech.audio.delta","audio":""}`, done}, true, `data: {"type":"speech.audio.delta","audio":""}` + "\n\ndata: " + done + "\n\n", nil},
		"an escape":           {[]string{`{"type":"speech.audio.delta","audio":"AA\/A"}`, done}, true, `data: {"type":"speech.audio.delta","audio":"AA\/A"}` + "\n\ndata: " + done + "\n\n", nil},
		"absurd counts": {
			[]string{delta, `{"type":"speech.audio.done","usage":{"input_tokens":-5,"output_tokens":1e300,"total_tokens":99999999999999999999}}`},
			true, shown + `data: {"type":"speech.audio.done","usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}` + "\n\n", nil,
		},
		"bytes and not events": {[]string{"RIFF"}, true, "", new(translate.BadAnswerError)},
	} {
		s := speechStream()
		var out []byte
		var err error
		for _, ev := range c.events {
			if out, err = s.Append(out, sse.Event{Data: []byte(ev)}); err != nil {
				break
			}
		}
		if c.framed {
			s.MarkEnded()
		}
		if err == nil {
			out, err = s.Finish(out)
		}
		if string(out) != c.want || !isSameErrorKind(err, c.err) {
			t.Errorf("%s: %v\n%s, want\n%s", name, err, out, c.want)
		}
		if again, err := s.Finish(nil); c.err == nil && (len(again) > 0 || err != nil) {
			t.Errorf("%s: a second end: %s, %v", name, again, err)
		}
		if u := s.Usage(); name == "by the book" && (u.Prompt != 3 || u.Completion != 2) {
			t.Errorf("got the usage %+v, want 3 prompt and 2 completion tokens", u)
		}
	}
	s := speechStream()
	if out := s.AppendFailure(s.AppendAudio(nil, []byte("RIFF....")), apierr.InternalError(nil)); strings.Count(string(out), "data: ") != 2 || !strings.Contains(string(out), `"error"`) {
		t.Errorf("got %s, want the sound and an error event", out)
	}
}

// isSameErrorKind reports whether err equals want or has the same type.
func isSameErrorKind(err, want error) bool {
	var bad *translate.BadAnswerError
	var engine *engineerror.Error
	switch want.(type) {
	case *translate.BadAnswerError:
		return errors.As(err, &bad)
	case *engineerror.Error:
		return errors.As(err, &engine)
	}
	return errors.Is(err, want)
}

// TestSoundAllocs checks that the number of allocations does not grow with the audio.
func TestSoundAllocs(t *testing.T) {
	s, piece := speechStream(), make([]byte, 16<<10+1)
	out := make([]byte, 0, 32<<10)
	s.AppendAudio(out, piece)
	if n := testing.AllocsPerRun(50, func() { s.AppendAudio(out, piece) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
