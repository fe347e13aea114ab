package audio

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

func TestSpeech(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"model":"m","input":"hi"}`:                                             `audio/wav {"model":"served","input":"hi","response_format":"wav"}`,
		`{"response_format":null,"input":"hi","model":"m" }`:                     `audio/wav {"response_format":"wav","input":"hi","model":"served" }`,
		`{"model":"m","input":"hi","response_format":"mp3","speed":0.25}`:        `audio/mpeg {"model":"served","input":"hi","response_format":"mp3","speed":0.25}`,
		`{"model":"m","input":"hi","response_format":"flac","speed":4.0}`:        `audio/flac {"model":"served","input":"hi","response_format":"flac","speed":4.0}`,
		`{"model":"m","input":"hi","response_format":"\u006fpus","voice":null}`:  `audio/ogg {"model":"served","input":"hi","response_format":"\u006fpus","voice":null}`,
		`{"model":"m","input":"hi","response_format":"pcm","odd":[1e3,{"a":1}]}`: `audio/pcm {"model":"served","input":"hi","response_format":"pcm","odd":[1e3,{"a":1}]}`,
		`{"model":"m","input":"hi","stream_format":"audio","voice":"v"}`:         `audio/wav {"model":"served","input":"hi","stream_format":"audio","voice":"v","response_format":"wav"}`,
	} {
		var s Speech
		if err := s.Decode([]byte(in)); err != nil {
			t.Errorf("Decode(%s) = %v, want success", in, err)
			continue
		}
		for range 2 { // the second engine receives the same request
			if got := s.ContentType() + " " + string(bytes.Join(s.AppendSegments(nil, "served"), nil)); got != want {
				t.Errorf("%s:\n %s, want\n %s", in, got, want)
			}
		}
	}
}

// TestSpeechEvents checks that the edge requests events only if an engine can send them for the
// request.
func TestSpeechEvents(t *testing.T) {
	t.Parallel()
	const head, format = `{"model":"served","input":"hi"`, `,"response_format":`
	for more, from := range map[string]bool{
		`,"response_format":"wav"`:               false, // engines send events without the wav file header
		`,"response_format":"pcm","speed":1.0`:   true,
		`,"response_format":"pcm","speed":null`:  true,
		`,"response_format":"pcm","speed":1.5`:   false,
		`,"response_format":"mp3"`:               false,
		`,"response_format":"aac","voice":"one"`: false,
	} {
		var s Speech
		body := head + `,"stream_format":"sse"` + more + `}`
		if err := s.Decode([]byte(body)); err != nil || !s.WantsEvents() || s.CanRequestEvents() != from {
			t.Errorf("%s: %v, events %v, from the engine %v", body, err, s.WantsEvents(), s.CanRequestEvents())
			continue
		}
		for _, on := range []bool{false, true, false} { // one engine after another
			want := body
			if !on {
				want = head + more + `}`
			}
			if s.SetRequestsEvents(on); string(bytes.Join(s.AppendSegments(nil, "served"), nil)) != want {
				t.Errorf("%s with events %v: sent %s, want %s", body, on, bytes.Join(s.AppendSegments(nil, "served"), nil), want)
			}
		}
		if e := (*apierr.Error)(nil); s.CheckRules(&chat.ModelRules{}) != nil || !errors.As(s.CheckRules(&chat.ModelRules{Strict: true}), &e) || e.Param != "stream_format" {
			t.Errorf("%s: the strict check = %v, want an error at stream_format", body, e)
		}
	}
	var s Speech
	if err := s.Decode([]byte(head + format + `"aac"}`)); err != nil || s.CheckRules(&chat.ModelRules{}) != nil || s.CheckRules(&chat.ModelRules{Strict: true}) == nil {
		t.Errorf("aac: Decode = %v, want success, and an error only from the strict check", err)
	}
}

func TestSpeechRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                           " invalid_json",
		`{"model":"m","input":"hi"`:  " invalid_json",
		`[]`:                         " invalid_type",
		`{"input":"hi"}`:             "model missing_parameter",
		`{"model":"m"}`:              "input missing_parameter",
		`{"model":"m","input":null}`: "input missing_parameter",
		`{"model":"m","input":""}`:   "input invalid_value",
		`{"model":"m","input":1}`:    "input invalid_type",
		`{"model":"m","input":"hi","input":"ho"}`:              "input duplicate_member",
		`{"model":"m","input":"hi","Speed":1}`:                 "speed duplicate_member",
		`{"model":"m","input":"hi","voice":{"id":"x"}}`:        "voice invalid_type",
		`{"model":"m","input":"hi","speed":0.24}`:              "speed invalid_value",
		`{"model":"m","input":"hi","speed":4.01}`:              "speed invalid_value",
		`{"model":"m","input":"hi","speed":1e999}`:             "speed invalid_value",
		`{"model":"m","input":"hi","speed":"1"}`:               "speed invalid_type",
		`{"model":"m","input":"hi","response_format":"ogg"}`:   "response_format invalid_value",
		`{"model":"m","input":"hi","response_format":["wav"]}`: "response_format invalid_type",
		`{"model":"m","input":"hi","stream_format":"events"}`:  "stream_format invalid_value",
		`{"model":"m","input":"hi","stream_format":1}`:         "stream_format invalid_value",
	} {
		err := new(Speech).Decode([]byte(in))
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param+" "+e.Code != want || e.Status != 400 {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// FuzzSpeech checks that no body causes a panic, that errors are typed, and that the engine
// receives the served name and a format.
func FuzzSpeech(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"hi"}`))
	f.Add([]byte(` { "response_format" : null , "model":"\u006d", "input":"\n" } `))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s Speech
		if err := s.Decode(body); err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("got the error %v, want a 400", err)
			}
			return
		}
		sent := bytes.Join(s.AppendSegments(nil, "served"), nil)
		var before, after map[string]any
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(sent, &after) != nil {
			t.Fatalf("sent %s, want JSON", sent)
		}
		if after["model"] != "served" || s.ContentType() == "" || speechTypes[after["response_format"].(string)] != s.ContentType() || after["input"] != before["input"] {
			t.Fatalf("sent %s for %s", sent, body)
		}
	})
}
