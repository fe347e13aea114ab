package call

import (
	"errors"
	"strings"
	"testing"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/hook"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// TestClassifyHookError checks which failure ends a call after an error about a hook, and whether
// the hook is to blame.
func TestClassifyHookError(t *testing.T) {
	late, own := &hook.Failure{Cause: upstreams.CauseHookTimeout}, failure.RefusedByHook(451, "no")
	for _, c := range []struct {
		name          string
		err, canceled error
		status        int // 0 if the call continues
		blamed        bool
	}{
		{"no error", nil, nil, 0, false},
		{"the hook is late", late, nil, 503, true},
		{"the hook is late, but the client has left", late, failure.ErrClientGone, failure.StatusClientGone, false},
		{"no memory", hook.ErrNoMemory, nil, 503, false},
		{"refused", own, nil, 451, false},
		{"an invalid request", apierr.Invalid("model", apierr.CodeInvalidValue, "No."), nil, 400, false},
	} {
		f, blamed := classifyHookError(c.err, c.canceled)
		if f == nil && c.status != 0 || f != nil && f.API.Status != c.status || (blamed != nil) != c.blamed {
			t.Errorf("%s: got %+v and %v, want the status %d, blamed: %t", c.name, f, blamed, c.status, c.blamed)
		}
	}
}

// TestCheckRewrite checks with which bodies a hook may replace the client's body.
func TestCheckRewrite(t *testing.T) {
	const plain, streamed = `{"model":"m"}`, `{"model":"m","stream":true}`
	json, form := &endpoint.Endpoint{}, &endpoint.Endpoint{Form: true}
	for _, c := range []struct {
		name              string
		ep                *endpoint.Endpoint
		rewritten, client string
		detail            hook.AnswerMistake
		ok                bool
	}{
		{"plain", json, plain, plain, "", true},
		{"streamed", json, streamed, streamed, "", true},
		{"as long as allowed", json, `{"a":` + strings.Repeat("1", 94) + `}`, plain, "", true},
		{"too long", json, `{"a":` + strings.Repeat("1", 95) + `}`, plain, "", false},
		{"becomes a stream", json, streamed, plain, hook.MistakeStreamChanged, false},
		{"is no stream any more", json, plain, streamed, hook.MistakeStreamChanged, false},
		{"a form", form, plain, plain, hook.MistakeUploadReplaced, false},
	} {
		err := checkRewrite(c.ep, []byte(c.rewritten), []byte(c.client), 100)
		blamed, _ := errors.AsType[*hook.Failure](err)
		if (err == nil) != c.ok || (blamed != nil) != (c.detail != "") || blamed != nil && blamed.Detail != c.detail {
			t.Errorf("%s: got %v, want ok: %t, or %q", c.name, err, c.ok, c.detail)
		}
	}
}

// TestModelEdit checks that only the model of a request is replaced.
func TestModelEdit(t *testing.T) {
	for src, want := range map[string]string{
		`{"model":"m","n":1}`:                    `{"model":"a \"b\"","n":1}`,
		`{"n": [1, 2], "model" : "m" }`:          `{"n": [1, 2], "model" : "a \"b\"" }`,
		`{"x":{"model":"inner"},"model":"long"}`: `{"x":{"model":"inner"},"model":"a \"b\""}`,
		`{"n":1}`:                                "",
		`{`:                                      "",
	} {
		edits, err := modelEdit([]byte(src), `a "b"`)
		if err != nil {
			if want != "" {
				t.Errorf("%s: %v", src, err)
			}
			continue
		}
		if got := string(edits.Append(nil, []byte(src))); got != want || edits.Size(len(src)) != len(got) {
			t.Errorf("%s: got %s of size %d, want %s", src, got, edits.Size(len(src)), want)
		}
	}
}
