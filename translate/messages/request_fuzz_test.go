package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/jsonx"
)

// seeds returns the section name of every archive in a folder.
func seeds(f testing.TB, folder, name string) (out [][]byte) {
	for _, a := range golden.ReadArchives(f, filepath.Join("testdata", folder)) {
		if text := a.Section(name); text != nil {
			out = append(out, text)
		}
	}
	return out
}

// chatWords lists names of chat members. A Messages client must not see them.
var chatWords = []string{"image_url", "tool_calls", "tool_call_id", "function", "parameters", "arguments", "stop[", "response_format", "reasoning_effort"}

// FuzzDecode checks that no body makes Decode panic, and that Decode changes only lone surrogates
// in the body. Errors must use the terms of Messages. Decode must always translate the same body to
// the same chat request.
func FuzzDecode(f *testing.F) {
	for _, s := range seeds(f, "request", "request") {
		f.Add(s, byte(0))
	}
	f.Add(seeds(f, "request", "request")[0], byte(7))
	var r Request
	f.Fuzz(func(t *testing.T, body []byte, options byte) {
		o := dialects.Options{Strict: options&1 != 0, Count: options&2 != 0}
		if options&4 != 0 {
			o.InPlace = func([]byte) bool { return true }
		}
		kept := bytes.Clone(body)
		var c, again chat.Request
		out, err := r.Decode([]byte("xx"), body, &c, new(RequestInfo), o)
		after := bytes.Clone(body)
		if json.Valid(kept) && !o.Strict { // only surrogate halves may have been replaced
			jsonx.ReplaceLoneSurrogates(kept)
			jsonx.ReplaceLoneSurrogates(after)
		}
		if !bytes.Equal(kept, after) {
			t.Fatal("the body has changed")
		}
		if err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) || e.Status != 400 || e.Code == "" || e.Message == "" || strings.Contains(e.Param, "..") {
				t.Fatalf("got %T: %v, want a 400 with a code and a message", err, err)
			}
			for _, word := range chatWords {
				if strings.Contains(e.Param, word) {
					t.Fatalf("the error speaks of chat: %v: %s", e, e.Message)
				}
			}
			return
		}
		if !bytes.HasPrefix(out, []byte("xx")) {
			t.Fatal("what stood in dst is gone")
		}
		out = out[2:]
		if !json.Valid(out) {
			t.Fatalf("the chat body is not JSON: %s", out)
		}
		if err := again.Decode(out); err != nil {
			t.Fatalf("chat refuses what was accepted: %v: %s", err, out)
		}
		if second, err := r.Decode(nil, body, &again, new(RequestInfo), o); err != nil || !bytes.Equal(second, out) {
			t.Fatalf("the same body becomes another one: %v\n%s\n%s", err, out, second)
		}
	})
}
