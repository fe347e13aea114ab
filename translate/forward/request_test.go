package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

func TestRequest(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` {"model":"m"} `:                       ` {"model":"served \"x\""} `,
		`{"a":{"model":1},"model":"\u006d"}`:    `{"a":{"model":1},"model":"served \"x\""}`,
		`{"input":[[1,2],[3]], "model" : "m" }`: `{"input":[[1,2],[3]], "model" : "served \"x\"" }`,
		`{"model":"m","stream":false,"n":null}`: `{"model":"served \"x\"","stream":false,"n":null}`,
	} {
		var r Request
		if err := r.DecodePlain([]byte(in)); err != nil || string(r.Model) != "m" {
			t.Errorf("%s: %q, %v", in, r.Model, err)
			continue
		}
		if got := string(bytes.Join(r.Segments(nil, `served "x"`), nil)); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                             " invalid_json",
		`nul`:                          " invalid_json",
		`[]`:                           " invalid_type",
		`{}`:                           "model missing_parameter",
		`{"model":null}`:               "model missing_parameter",
		`{"model":1}`:                  "model invalid_type",
		`{"model":""}`:                 "model invalid_value",
		`{"model":"a\u0000"}`:          "model invalid_value",
		`{"model":"m","model":"m"}`:    "model duplicate_member",
		`{"model":"m","mod\u0065l":1}`: "model duplicate_member",
		`{"model":"m","MODEL":"x"}`:    "model duplicate_member",
		`{"model":"m","stream":true}`:  "stream unsupported_parameter",
		`{"model":"m","stream":1}`:     "stream invalid_type",
	} {
		err := new(Request).DecodePlain([]byte(in))
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param+" "+e.Code != want || e.Status != 400 {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestDecodeCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in               string
		choices, most    int
		stream, accepted bool
	}{
		{`{"model":"m","prompt":"x"}`, 1, -1, false, true},
		{`{"model":"m","prompt":["x","y"],"n":3,"stream":true,"max_tokens":0}`, 6, 0, true, true},
		{`{"model":"m","prompt":[1,2,3]}`, 1, -1, false, true},
		{`{"model":"m","prompt":[[1,2],[3]],"max_tokens":7}`, 2, 7, false, true},
		{`{"model":"m","prompt":[]}`, 0, 0, false, false},
		{`{"model":"m"}`, 0, 0, false, false},
		{`{"model":"m","prompt":{}}`, 0, 0, false, false},
		{`{"model":"m","prompt":["a",5]}`, 0, 0, false, false},
		{`{"model":"m","prompt":"x","best_of":1000}`, 0, 0, false, false},
		{`{"model":"m","prompt":"x","best_of":2}`, 1, -1, false, true},
		{`{"model":"m","prompt":"x","n":null,"max_tokens":null,"stream":null}`, 1, -1, false, true},
		{`{"model":"m","n":0}`, 0, 0, false, false},
		{`{"model":"m","n":129}`, 0, 0, false, false},
		{`{"model":"m","n":1.5}`, 0, 0, false, false},
		{`{"model":"m","max_tokens":-1}`, 0, 0, false, false},
		{`{"model":"m","max_tokens":"1"}`, 0, 0, false, false},
		{`{"model":"m","stream":"true"}`, 0, 0, false, false},
	} {
		var r Request
		err := r.DecodeCompletion([]byte(c.in))
		if (err == nil) != c.accepted || err == nil && (r.Choices != c.choices || r.MaxTokens != c.most || r.Stream != c.stream) {
			t.Errorf("%s: %d choices, %d tokens, stream %v, %v", c.in, r.Choices, r.MaxTokens, r.Stream, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	var r Request
	if err := r.Decode([]byte(`{"model":"m","bootstrap_host":1}`)); err != nil {
		t.Fatal(err)
	}
	if r.Check(new(chat.Limits)) != nil || r.Check(&chat.Limits{Refuse: chat.NewRefusals("bootstrap_*")}) == nil {
		t.Error("members that steer an engine are not told from others")
	}
}

func TestDecodeEmbeddings(t *testing.T) {
	t.Parallel()
	for members, param := range map[string]string{
		`"input":"x"`: "", `"input":["a",{"image":"aGk="}]`: "", `"input":["a","b"]`: "", `"input":[1,2]`: "", `"input":[[1],[2,3]]`: "", `"messages":[]`: "",
		`"input":[{"image":"aGk="}],"encoding_format":"base64","dimensions":8`: "",
		`"input":5`: "input", `"input":[]`: "input", `"input":["a",5]`: "input", `"input":[true]`: "input",
		`"input":"x","encoding_format":"zz"`: "encoding_format", `"input":"x","encoding_format":1`: "encoding_format",
		`"input":"x","dimensions":-1`: "dimensions", `"input":"x","dimensions":"8"`: "dimensions",
	} {
		err := new(Request).DecodeEmbeddings([]byte(`{"model":"m",` + members + `}`))
		var e *apierr.Error
		if errors.As(err, &e); (err == nil) != (param == "") || err != nil && e.Param != param {
			t.Errorf("%s: %v, want %q", members, err, param)
		}
	}
}

// TestCompletionLimit: the model's limit reaches the engine of a completion, whatever the client calls its own.
func TestCompletionLimit(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("if(a){", 15) // 90 bytes
	for _, c := range []struct {
		in, want string // want without model and prompt
		limits   chat.Limits
	}{
		{`"max_tokens":9`, `,"max_tokens":8`, chat.Limits{MaxOutputLength: 8}},
		{`"max_tokens":7`, `,"max_tokens":7`, chat.Limits{MaxOutputLength: 8}},
		{`"a":1`, `,"a":1,"max_tokens":8`, chat.Limits{MaxOutputLength: 8}},
		{`"max_tokens":null`, `,"max_tokens":8`, chat.Limits{MaxOutputLength: 8}},
		{`"max_tokens":9`, `,"max_tokens":9`, chat.Limits{}},
		{`"a":1`, `,"a":1`, chat.Limits{MaxOutputLength: 8, ContextLength: 8}},
		{`"a":"` + code + `"`, `,"a":"` + code + `"`, chat.Limits{MaxOutputLength: 8, ContextLength: 48}},
		{`"a":"` + code + `"`, `,"a":"` + code + `","max_tokens":8`, chat.Limits{MaxOutputLength: 8, ContextLength: 80}},
		{`"max_tokens":1,"n_predict":-1,"max_completion_tokens":9`, `,"max_tokens":1,"n_predict":8,"max_completion_tokens":8`, chat.Limits{MaxOutputLength: 8}},
		{`"max_tokens":9`, "max_tokens", chat.Limits{MaxOutputLength: 8, Strict: true}},
		{`"max_completion_tokens":9`, "max_completion_tokens", chat.Limits{MaxOutputLength: 8, Strict: true}},
	} {
		var r Request
		if err := r.DecodeCompletion([]byte(`{"model":"m","prompt":"x",` + c.in + `}`)); err != nil {
			t.Fatal(err)
		}
		if err := r.Check(&c.limits); err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Param != c.want {
				t.Errorf("%s: %v", c.in, err)
			}
			continue
		}
		if got := string(bytes.Join(r.Segments(nil, "m"), nil)); got != `{"model":"m","prompt":"x"`+c.want+`}` {
			t.Errorf("%s: %s", c.in, got)
		}
	}
}

// FuzzRequest: no panic, typed errors, and only the model is changed.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[1,"a",{"b":null}]}`))
	f.Add([]byte(`{"model":"m","prompt":["x"],"n":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Request
		if err := r.DecodeCompletion(body); err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("%v", err)
			}
			return
		}
		sent := bytes.Join(r.Segments(nil, "served"), nil)
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(sent, &after) != nil || string(after["model"]) != `"served"` {
			t.Fatalf("sent %s", sent)
		}
		for name, v := range before {
			if name != "model" && !bytes.Equal(v, after[name]) {
				t.Fatalf("%s was changed: %s", name, sent)
			}
		}
	})
}
