package hook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxRefusalMessage+1)
	for _, c := range []struct {
		name, answer string
		want         Decision
		wrong        AnswerMistake
	}{
		{name: "allow", answer: `{"action":"allow"}`, want: Decision{Action: ActionAllow}},
		{name: "allow with blanks", answer: " {\n\"action\" : \"allow\" }\n", want: Decision{Action: ActionAllow}},
		{name: "allow with more", answer: `{"action":"allow","note":"fine"}`, wrong: MistakeOtherMember},
		{name: "allow with a status", answer: `{"action":"allow","status":403}`, wrong: MistakeOtherMember},
		{
			name: "refuse", answer: `{"action":"refuse","status":451,"message":"No \u00e9."}`,
			want: Decision{Action: ActionRefuse, Status: 451, Message: "No é."},
		},
		{
			name: "refuse without words", answer: `{"action":"refuse"}`,
			want: Decision{Action: ActionRefuse, Status: defaultStatus, Message: defaultMessage},
		},
		{name: "refuse with 200", answer: `{"action":"refuse","status":200}`, wrong: MistakeStatusOutOfRange},
		{name: "refuse with 401", answer: `{"action":"refuse","status":401}`, wrong: MistakeStatusOutOfRange},
		{name: "refuse with 500", answer: `{"action":"refuse","status":500}`, wrong: MistakeStatusOutOfRange},
		{name: "refuse with a text as its status", answer: `{"action":"refuse","status":"403"}`, wrong: MistakeStatusOutOfRange},
		{name: "refuse without a status number", answer: `{"action":"refuse","status":null}`, wrong: MistakeStatusOutOfRange},
		{name: "refuse with a long message", answer: `{"action":"refuse","message":"` + long + `"}`, wrong: MistakeMessage},
		{name: "refuse with an empty message", answer: `{"action":"refuse","message":""}`, wrong: MistakeMessage},
		{name: "refuse with a body", answer: `{"action":"refuse","body":{}}`, wrong: MistakeOtherMember},
		{
			name: "rewrite", answer: `{"action":"rewrite","body":{"model":"m", "n":1}}`,
			want: Decision{Action: ActionRewrite, Body: []byte(`{"model":"m", "n":1}`)},
		},
		{name: "rewrite without a body", answer: `{"action":"rewrite"}`, wrong: MistakeBody},
		{name: "rewrite with a text", answer: `{"action":"rewrite","body":"{}"}`, wrong: MistakeBody},
		{name: "rewrite with a list", answer: `{"action":"rewrite","body":[]}`, wrong: MistakeBody},
		{name: "rewrite with a model", answer: `{"action":"rewrite","body":{},"model":"m"}`, wrong: MistakeOtherMember},
		{name: "route", answer: `{"action":"route","model":"qwen3:8b"}`, want: Decision{Action: ActionRoute, Model: "qwen3:8b"}},
		{name: "route to nothing", answer: `{"action":"route","model":""}`, wrong: MistakeModel},
		{name: "route to a pattern", answer: `{"action":"route","model":"qwen*"}`, wrong: MistakeModel},
		{name: "route to a long name", answer: `{"action":"route","model":"` + long + `"}`, wrong: MistakeModel},
		{name: "route without a model", answer: `{"action":"route"}`, wrong: MistakeModel},
		{name: "no action", answer: `{}`, wrong: MistakeNoAction},
		{name: "another action", answer: `{"action":"deny"}`, wrong: MistakeUnknownAction},
		{name: "an action in capitals", answer: `{"action":"ALLOW"}`, wrong: MistakeUnknownAction},
		{name: "a member in capitals", answer: `{"Action":"allow"}`, wrong: MistakeWrongCase},
		{name: "an action twice", answer: `{"action":"refuse","action":"allow"}`, wrong: MistakeMemberTwice},
		{name: "an action that is null", answer: `{"action":null}`, wrong: MistakeNoAction},
		{name: "a text", answer: `"allow"`, wrong: MistakeNotAnObject},
		{name: "a list", answer: `[{"action":"allow"}]`, wrong: MistakeNotAnObject},
		{name: "nothing", answer: ``, wrong: MistakeNotJSON},
		{name: "HTML", answer: `<html>`, wrong: MistakeNotJSON},
		{name: "half", answer: `{"action":"allow"`, wrong: MistakeNotJSON},
		{name: "two", answer: `{"action":"allow"}{"action":"allow"}`, wrong: MistakeNotJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := ParseDecision([]byte(c.answer))
			if wrong != c.wrong || (wrong == "") != (wrong.Description() == "") {
				t.Fatalf("%+v, %q, want %q", got, wrong, c.wrong)
			}
			if got.Action != c.want.Action || got.Status != c.want.Status || got.Message != c.want.Message ||
				got.Model != c.want.Model || string(got.Body) != string(c.want.Body) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// FuzzParseDecision checks that encoding/json reads the same decision from every answer that
// ParseDecision accepts.
func FuzzParseDecision(f *testing.F) {
	for _, seed := range []string{
		`{"action":"allow"}`, `{"action":"refuse","status":403,"message":"no"}`, `{"action":"rewrite","body":{"a":[1]}}`,
		`{"action":"route","model":"m"}`, `{"action":"allow","x":1}`, `{"a`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, wrong := ParseDecision(answer)
		if wrong != "" {
			return
		}
		var other struct {
			Action  string
			Status  *float64
			Message *string
			Body    json.RawMessage
			Model   string
		}
		if err := json.Unmarshal(answer, &other); err != nil {
			t.Fatalf("%q is a decision but not JSON: %v", answer, err)
		}
		if other.Action != d.Action.String() {
			t.Fatalf("%q became the action %v", answer, d.Action)
		}
		if d.Action == ActionRefuse && (!slices.Contains(AllowedStatuses(), d.Status) || other.Status != nil && int(*other.Status) != d.Status) {
			t.Errorf("%q became the status %d", answer, d.Status)
		}
		if d.Action == ActionRewrite && string(other.Body) != string(d.Body) {
			t.Errorf("%q became the body %q", answer, d.Body)
		}
		if d.Action == ActionRoute && d.Model == "" {
			t.Errorf("%q: no model", answer)
		}
	})
}
