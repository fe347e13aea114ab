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
		`{"model":"m","input":"\ud83d\ude00"}`:  `{"model":"served \"x\"","input":"\ud83d\ude00"}`,
	} {
		var r Request
		if err := r.DecodeNoStream([]byte(in)); err != nil || string(r.Model) != "m" {
			t.Errorf("DecodeNoStream(%s): the model is %q, error %v, want m", in, r.Model, err)
			continue
		}
		if got := string(bytes.Join(r.AppendSegments(nil, `served "x"`), nil)); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
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
		`{"model":"a\u007f"}`:          "model invalid_value",
		`{"model":"m","a":"\ud83d"}`:   " invalid_json", // half a surrogate pair
		`{"model":"m","model":"m"}`:    "model duplicate_member",
		`{"model":"m","mod\u0065l":1}`: "model duplicate_member",
		`{"model":"m","MODEL":"x"}`:    "model duplicate_member",
		`{"model":"m","stream":true}`:  "stream unsupported_parameter",
		`{"model":"m","stream":1}`:     "stream invalid_type",
		`{"model":"` + strings.Repeat("x", chat.MaxModelName+1) + `"}`: "model invalid_value",
	} {
		err := new(Request).DecodeNoStream([]byte(in))
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param+" "+e.Code != want || e.Status != 400 {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

func TestDecodeCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in            string // the members other than the model
		choices, most int
		stream        bool
	}{
		{`"prompt":"x"`, 1, -1, false},
		{`"prompt":["x","y"],"n":3,"stream":true,"max_tokens":0`, 6, 0, true},
		{`"prompt":[1,2,3]`, 1, -1, false},
		{`"prompt":[[1,2],[3]],"max_tokens":7`, 2, 7, false},
		{`"prompt":"x","max_tokens":-1`, 1, -1, false},
		{`"prompt":"x","best_of":2`, 1, -1, false},
		{`"prompt":"x","n_cmpl":2`, 2, -1, false},
		{`"prompt":["x","y"],"n_cmpl":2,"n":2`, 4, -1, false},
		{`"prompt":"x","best_of":128,"n":128`, 128, -1, false},
		{`"prompt":"x","n":null,"max_tokens":null,"stream":null`, 1, -1, false},
		{`"prompt":[` + strings.Repeat(`"x",`, 31) + `"x"],"n":128`, maxChoices, -1, false},
	} {
		var r Request
		err := r.DecodeCompletion([]byte(`{"model":"m",` + c.in + `}`))
		if err != nil || r.Choices != c.choices || r.MaxTokens != c.most || r.Stream != c.stream {
			t.Errorf("%s: %d choices, %d tokens, stream %v, %v", c.in, r.Choices, r.MaxTokens, r.Stream, err)
		}
	}
	for members, param := range map[string]string{
		`"prompt":[]`: "prompt", `"a":1`: "prompt", `"prompt":{}`: "prompt", `"prompt":["a",5]`: "prompt", `"prompt":"x","prompt":"y"`: "prompt",
		`"prompt":"x","n_cmpl":2,"n":1`: "n_cmpl", `"prompt":"x","n_cmpl":0`: "n_cmpl", `"prompt":"x","n_cmpl":2,"n":"2"`: "n",
		`"prompt":"x","best_of":129`: "best_of", `"prompt":"x","best_of":0`: "best_of", `"prompt":"x","best_of":"2"`: "best_of",
		`"prompt":"x","n":0`: "n", `"prompt":"x","n":129`: "n", `"prompt":"x","n":1.5`: "n",
		`"prompt":[` + strings.Repeat(`"x",`, 32) + `"x"],"n":128`: "n",
		`"prompt":"x","max_tokens":-2`:                             "max_tokens", `"prompt":"x","max_tokens":"1"`: "max_tokens", `"prompt":"x","max_tokens":1e15`: "max_tokens",
		`"prompt":"x","stream":"true"`: "stream", `"prompt":"x","stream":true,"stream":false`: "stream",
	} {
		err := new(Request).DecodeCompletion([]byte(`{"model":"m",` + members + `}`))
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param != param {
			t.Errorf("%.60s: %v, want %q", members, err, param)
		}
	}
}

// TestIntegers checks that an integer out of range is reported as a wrong value, and any other type
// as a wrong type.
func TestIntegers(t *testing.T) {
	t.Parallel()
	for value, code := range map[string]string{
		"1e20": apierr.CodeInvalidValue, "1.5": apierr.CodeInvalidValue, "1e15": apierr.CodeInvalidValue,
		`"1"`: apierr.CodeInvalidType, "[1]": apierr.CodeInvalidType,
	} {
		var e *apierr.Error
		if err := new(Request).DecodeCompletion([]byte(`{"model":"m","prompt":"x","max_tokens":` + value + `}`)); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%s: %v, want %s", value, err, code)
		}
		var r chat.Request
		err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":` + value + `}`))
		if value != "1e15" && (!errors.As(err, &e) || e.Code != code) {
			t.Errorf("chat, %s: %v, want %s", value, err, code)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	var r Request
	if err := r.Decode([]byte(`{"model":"m","bootstrap_host":1}`)); err != nil {
		t.Fatal(err)
	}
	if r.CheckRules(new(chat.ModelRules)) != nil || r.CheckRules(&chat.ModelRules{Refuse: chat.NewRefusedMembers("bootstrap_*")}) == nil {
		t.Error("members that steer an engine are not told from others")
	}
	if r.CheckRules(&chat.ModelRules{MaxOutputLength: 8}) != nil || strings.Contains(string(bytes.Join(r.AppendSegments(nil, "m"), nil)), "tokens") {
		t.Error("what is no completion is given a limit of one")
	}
}

func TestDecodeEmbeddings(t *testing.T) {
	t.Parallel()
	for members, param := range map[string]string{
		`"input":"x"`: "", `"input":["a",{"image":"aGk="}]`: "", `"input":{"messages":[]}`: "", `"input":"x","encoding_format":"float","dimensions":1`: "", `"input":["a","b"]`: "", `"input":[1,2]`: "", `"input":[[1],[2,3]]`: "", `"messages":[]`: "",
		`"content":"x"`: "input", `"content":"x","input":"y"`: "", `"content":null,"messages":[]`: "",
		`"input":[{"image":"aGk="}],"encoding_format":"base64","dimensions":8`: "",
		`"user":"a"`: "input", `"input":null`: "input", `"image":"data:image/png;base64,"`: "", `"input":"x","user":"a"`: "", `"input":"x","user":1`: "user",
		`"input":"x","input":"y"`: "input", `"input":"x","stream":true`: "stream", `"input":"x","dimensions":0`: "dimensions",
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

func TestDecodeRerank(t *testing.T) {
	t.Parallel()
	for members, param := range map[string]string{
		`"query":"x","documents":["a"]`: "", `"query":"x","documents":["a"],"texts":null`: "",
		`"query":"x","texts":["a"]`: "texts", `"query":"x","documents":["a"],"texts":["a"]`: "texts", `"stream":true`: "stream",
		`"documents":["a"]`: "query", `"query":null,"documents":["a"]`: "query", `"query":"x"`: "documents", `"query":{"text":"x"},"documents":{"content":[]}`: "",
	} {
		err := new(Request).DecodeRerank([]byte(`{"model":"m",` + members + `}`))
		var e *apierr.Error
		if errors.As(err, &e); (err == nil) != (param == "") || err != nil && e.Param != param {
			t.Errorf("%s: %v, want %q", members, err, param)
		}
	}
}

// TestCompletionLimit checks that the model's limit applies to a completion, whatever name the
// client uses for the limit.
func TestCompletionLimit(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("if(a){", 15) // 90 bytes
	for _, c := range []struct {
		in, want string // want omits the model and the prompt
		limits   chat.ModelRules
	}{
		{`"max_tokens":9`, `,"max_tokens":8`, chat.ModelRules{MaxOutputLength: 8}},
		{`"max_tokens":7`, `,"max_tokens":7`, chat.ModelRules{MaxOutputLength: 8}},
		{`"max_tokens":8`, `,"max_tokens":8`, chat.ModelRules{MaxOutputLength: 8, Strict: true}},
		{`"max_tokens":0`, `,"max_tokens":0`, chat.ModelRules{MaxOutputLength: 8}},
		{`"a":1`, `,"a":1,"max_tokens":8`, chat.ModelRules{MaxOutputLength: 8}},
		{`"max_tokens":null`, `,"max_tokens":8`, chat.ModelRules{MaxOutputLength: 8}},
		{`"max_tokens":9`, `,"max_tokens":9`, chat.ModelRules{}},
		{`"a":1`, `,"a":1`, chat.ModelRules{MaxOutputLength: 8, ContextLength: 8}},
		{`"a":"` + code + `"`, `,"a":"` + code + `"`, chat.ModelRules{MaxOutputLength: 8, ContextLength: 48}},
		{`"a":"` + code + `"`, `,"a":"` + code + `","max_tokens":8`, chat.ModelRules{MaxOutputLength: 8, ContextLength: 80}},
		{`"max_tokens":1,"n_predict":-1,"max_completion_tokens":9`, `,"max_tokens":1,"n_predict":1,"max_completion_tokens":1`, chat.ModelRules{MaxOutputLength: 8}},
		{`"max_tokens":9,"n_predict":3000,"options":{"num_predict":5}`, `,"max_tokens":5,"n_predict":5,"options":{"num_predict":5}`, chat.ModelRules{}},
		{`"n_predict":3000`, `,"n_predict":3000`, chat.ModelRules{}},
		{`"max_tokens":9,"min_tokens":10`, "min_tokens", chat.ModelRules{}},
		{`"max_tokens":9`, "max_tokens", chat.ModelRules{MaxOutputLength: 8, Strict: true}},
		{`"max_tokens":-1`, ``, chat.ModelRules{}},
		{`"max_tokens":-1`, `,"max_tokens":8`, chat.ModelRules{MaxOutputLength: 8}},
		// LowerTo applies the engine's limit later.
		{`"max_tokens":-1`, `,"max_tokens":4096`, chat.ModelRules{ContextLength: 4096}},
		{`"max_tokens":-1`, "max_tokens", chat.ModelRules{Strict: true}},
		{`"max_completion_tokens":9`, "max_completion_tokens", chat.ModelRules{MaxOutputLength: 8, Strict: true}},
	} {
		var r Request
		if err := r.DecodeCompletion([]byte(`{"model":"m","prompt":"x",` + c.in + `}`)); err != nil {
			t.Fatal(err)
		}
		if err := r.CheckRules(&c.limits); err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Param != c.want {
				t.Errorf("%s: got the error %v, want one at %s", c.in, err, c.want)
			}
			continue
		}
		if got := string(bytes.Join(r.AppendSegments(nil, "m"), nil)); got != `{"model":"m","prompt":"x"`+c.want+`}` {
			t.Errorf("%s became %s, want the members %s", c.in, got, c.want)
		}
	}
}

// FuzzRequest checks that no body causes a panic, that errors are typed, and that only the model
// changes.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[1,"a",{"b":null}]}`))
	f.Add([]byte(`{"model":"m","prompt":["x"],"n":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Request
		if err := r.DecodeCompletion(body); err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("got the error %v, want a 400", err)
			}
			return
		}
		sent := bytes.Join(r.AppendSegments(nil, "served"), nil)
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil || json.Unmarshal(sent, &after) != nil || string(after["model"]) != `"served"` {
			t.Fatalf("sent %s, want JSON with the served name", sent)
		}
		for name, v := range before {
			if name != "model" && !bytes.Equal(v, after[name]) {
				t.Fatalf("%s was changed: %s", name, sent)
			}
		}
	})
}

// TestSegmentsSalted checks that the edge's cache salt replaces the client's salt.
func TestSegmentsSalted(t *testing.T) {
	var r Request
	for _, body := range []string{`{"model":"m","prompt":"x"}`, `{"cache_salt":"mine","model":"m","prompt":"x"}`, `{"model":"m","prompt":"x","cache_salt":"a","cache_salt":"b"}`} {
		if err := r.DecodeCompletion([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if got := string(bytes.Join(r.AppendSegments(nil, "m"), nil)); got != body {
			t.Errorf("without a salt: %s", got)
		}
		r.SetSalt(chat.CacheSalt{Member: "cache_salt", Owner: "key a"})
		got := bytes.Join(r.AppendSegments(nil, "m"), nil)
		if !json.Valid(got) || bytes.Count(got, []byte(`cache_salt`)) != 1 || bytes.Contains(got, []byte("mine")) {
			t.Errorf("with a salt: sent %s, want only the edge's own salt", got)
		}
	}
}
