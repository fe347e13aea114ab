package forward

import (
	"errors"
	"testing"

	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// TestFinishReasons checks that whole, streamed and relayed completions have only finish reasons that
// OpenAI defines. An aborted choice must be reported as a failure.
func TestFinishReasons(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		`"stop"`: `"stop"`, `"length"`: `"length"`, `"content_filter"`: `"content_filter"`,
		`"eos"`: `"stop"`, `"eos_token"`: `"stop"`, `"stop_sequence"`: `"stop"`, `"COMPLETE"`: `"stop"`, `"\u0065os"`: `"stop"`,
		`"max_tokens"`: `"length"`, `"insufficient_system_resource"`: "", `"abort"`: "", `"error"`: "",
	} {
		body := func(finish string) string {
			return `{"model":"m","choices":[{"text":"a","index":0,"finish_reason":` + finish + `}]}`
		}
		var a Answer
		var e *engineerror.Error
		err := a.Parse([]byte(body(word)))
		switch {
		case want == "" && (!errors.As(err, &e) || e.Status != 502):
			t.Errorf("%s, unstreamed: got the error %v, want a 502", word, err)
		case want == "":
		case err != nil:
			t.Errorf("%s, unstreamed: got the error %v, want none", word, err)
		default:
			if got := string(a.Append(nil, "m")); got != body(want) {
				t.Errorf("%s, unstreamed: got %s, want %s", word, got, body(want))
			}
		}
		var s Stream
		s.Reset("m", 1)
		out, err := s.Append(nil, sse.Event{Data: []byte(body(word))})
		if want == "" && (!errors.As(err, &e) || len(out) > 0) || want != "" && (err != nil || string(out) != "data: "+body(want)+"\n\n" || !s.IsFinished()) {
			t.Errorf("%s, streamed: got %s, %v, want %q", word, out, err, want)
		}
		var r Relay
		r.Reset("m", VectorsAsSent)
		out = out[:0]
		for _, c := range []byte(body(word)) {
			if out, err = r.Append(out, []byte{c}); err != nil {
				t.Fatal(err)
			}
		}
		var bad *translate.BadAnswerError
		if err = r.CheckComplete(); want == "" && !errors.As(err, &bad) || want != "" && (err != nil || string(out) != body(want)) {
			t.Errorf("%s, in pieces: %s, %v", word, out, err)
		}
	}
	var s Stream
	s.Reset("m", 1)
	for _, open := range []string{`null`, `""`} {
		data := `{"model":"m","choices":[{"text":"a","index":0,"finish_reason":` + open + `}]}`
		if out, err := s.Append(nil, sse.Event{Data: []byte(data)}); err != nil || string(out) != "data: "+data+"\n\n" || s.IsFinished() {
			t.Errorf("%s: got %s, %v, want the event unchanged and no end", open, out, err)
		}
	}
}
