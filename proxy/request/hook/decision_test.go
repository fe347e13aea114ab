package hook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxMessage+1)
	for _, c := range []struct {
		name, answer string
		want         Decision
		wrong        Detail
	}{
		{name: "allow", answer: `{"action":"allow"}`, want: Decision{Action: ActionAllow}},
		{name: "allow with blanks", answer: " {\n\"action\" : \"allow\" }\n", want: Decision{Action: ActionAllow}},
		{name: "allow with more", answer: `{"action":"allow","note":"fine"}`, wrong: DetailOtherMember},
		{name: "allow with a status", answer: `{"action":"allow","status":403}`, wrong: DetailOtherMember},
		{
			name: "refuse", answer: `{"action":"refuse","status":451,"message":"No \u00e9."}`,
			want: Decision{Action: ActionRefuse, Status: 451, Message: "No é."},
		},
		{
			name: "refuse without words", answer: `{"action":"refuse"}`,
			want: Decision{Action: ActionRefuse, Status: defaultStatus, Message: defaultMessage},
		},
		{name: "refuse with 200", answer: `{"action":"refuse","status":200}`, wrong: DetailStatus},
		{name: "refuse with 401", answer: `{"action":"refuse","status":401}`, wrong: DetailStatus},
		{name: "refuse with 500", answer: `{"action":"refuse","status":500}`, wrong: DetailStatus},
		{name: "refuse with a text as its status", answer: `{"action":"refuse","status":"403"}`, wrong: DetailStatus},
		{name: "refuse without a status number", answer: `{"action":"refuse","status":null}`, wrong: DetailStatus},
		{name: "refuse with a long message", answer: `{"action":"refuse","message":"` + long + `"}`, wrong: DetailMessage},
		{name: "refuse with an empty message", answer: `{"action":"refuse","message":""}`, wrong: DetailMessage},
		{name: "refuse with a body", answer: `{"action":"refuse","body":{}}`, wrong: DetailOtherMember},
		{
			name: "rewrite", answer: `{"action":"rewrite","body":{"model":"m", "n":1}}`,
			want: Decision{Action: ActionRewrite, Body: []byte(`{"model":"m", "n":1}`)},
		},
		{name: "rewrite without a body", answer: `{"action":"rewrite"}`, wrong: DetailBody},
		{name: "rewrite with a text", answer: `{"action":"rewrite","body":"{}"}`, wrong: DetailBody},
		{name: "rewrite with a list", answer: `{"action":"rewrite","body":[]}`, wrong: DetailBody},
		{name: "rewrite with a model", answer: `{"action":"rewrite","body":{},"model":"m"}`, wrong: DetailOtherMember},
		{name: "route", answer: `{"action":"route","model":"qwen3:8b"}`, want: Decision{Action: ActionRoute, Model: "qwen3:8b"}},
		{name: "route to nothing", answer: `{"action":"route","model":""}`, wrong: DetailModel},
		{name: "route to a pattern", answer: `{"action":"route","model":"qwen*"}`, wrong: DetailModel},
		{name: "route to a long name", answer: `{"action":"route","model":"` + long + `"}`, wrong: DetailModel},
		{name: "route without a model", answer: `{"action":"route"}`, wrong: DetailModel},
		{name: "no action", answer: `{}`, wrong: DetailNoAction},
		{name: "another action", answer: `{"action":"deny"}`, wrong: DetailUnknownAction},
		{name: "an action in capitals", answer: `{"action":"ALLOW"}`, wrong: DetailUnknownAction},
		{name: "a member in capitals", answer: `{"Action":"allow"}`, wrong: DetailWrongCase},
		{name: "an action twice", answer: `{"action":"refuse","action":"allow"}`, wrong: DetailMemberTwice},
		{name: "an action that is null", answer: `{"action":null}`, wrong: DetailNoAction},
		{name: "a text", answer: `"allow"`, wrong: DetailNotAnObject},
		{name: "a list", answer: `[{"action":"allow"}]`, wrong: DetailNotAnObject},
		{name: "nothing", answer: ``, wrong: DetailNotJSON},
		{name: "HTML", answer: `<html>`, wrong: DetailNotJSON},
		{name: "half", answer: `{"action":"allow"`, wrong: DetailNotJSON},
		{name: "two", answer: `{"action":"allow"}{"action":"allow"}`, wrong: DetailNotJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := Parse([]byte(c.answer))
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

// FuzzParse checks every answer that Parse accepts with a second parser.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"action":"allow"}`, `{"action":"refuse","status":403,"message":"no"}`, `{"action":"rewrite","body":{"a":[1]}}`,
		`{"action":"route","model":"m"}`, `{"action":"allow","x":1}`, `{"a`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		d, wrong := Parse(answer)
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
