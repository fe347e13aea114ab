package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/golden"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// translation contains the translation of a request.
type translation struct {
	body   []byte
	chat   chat.Request
	answer Stream
}

func translateBody(body []byte, o dialects.Options) (tr *translation, err error) {
	var r Request
	tr = new(translation)
	tr.body, err = r.Decode(nil, body, &tr.chat, &tr.answer.RequestInfo, o)
	return tr, err
}

// inPlace implements Options.InPlace and accepts every model.
func inPlace([]byte) bool { return true }

// fakeOpener opens the golden files' blobs for the model "model" or for no model.
type fakeOpener struct{}

func (fakeOpener) OpenReasoning(dst, model, blob []byte) ([]byte, bool) {
	text, ours := bytes.CutPrefix(blob, []byte("blob:"))
	if !ours || len(model) > 0 && string(model) != "model" {
		return dst, false
	}
	return append(dst, text...), true
}

// TestRequest runs the request archives. Each archive contains the client's body. If the request is
// valid, the archive also contains the chat body and the members that the answer repeats. Otherwise
// it contains the error. A line "strict", "in_place", "sealed" (blobs are opened), "may_compact" or
// "compact" in the comment enables that option. If the comment contains "limits", testLimits apply
// to the request.
func TestRequest(t *testing.T) {
	golden.RunArchives(t, "testdata/request", func(t *testing.T, ar *golden.Archive) {
		t.Helper()
		var chatBody, echo, problem, dropped []byte
		o := dialects.Options{Strict: ar.HasCommentLine("strict"), Refuse: chat.NewRefusedMembers("bootstrap_*")}
		if ar.HasCommentLine("in_place") {
			o.InPlace = inPlace
		}
		o.Compact, o.MayCompact = ar.HasCommentLine("compact"), ar.HasCommentLine("may_compact")
		if ar.HasCommentLine("sealed") {
			o.Opener = fakeOpener{}
		}
		tr, err := translateBody(ar.Section("request.json"), o)
		if err == nil {
			limits := testLimits
			if ar.HasCommentLine("media") {
				limits.InputModalities = []string{"text", "image", "audio", "file"}
			}
			if err = tr.chat.CheckRules(&limits); err != nil {
				err = tr.answer.RequestInfo.RelocateError(err)
			}
		}
		if err != nil {
			var e *apierr.Error
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			problem = append(e.AppendBody(problem), '\n')
		} else {
			chatBody = tr.body
			identity := testIdentity
			identity.Seal = testBox
			tr.answer.Reset(&identity)
			checkWhole(t, &tr.answer)
			echo = append([]byte{'{'}, tr.answer.RequestInfo.members[1:]...)
			echo = append(echo, '}')
			if names := tr.answer.RequestInfo.Dropped(); names != nil {
				dropped = []byte(strings.Join(names, ", ") + "\n")
			}
		}
		ar.SetSection("chat.json", chatBody)
		ar.SetSection("echo.json", echo)
		ar.SetSection("dropped", dropped)
		ar.SetSection("error.json", problem)
	})
}

// testLimits are the model's limits in request archives with the option "limits".
var testLimits = chat.ModelRules{
	LowerEffort: true, Efforts: []string{"none", "low", "medium"}, MaxOutputLength: 4096,
	Vision: &chat.VisionLimits{MaxPixels: 1 << 20},
}

var testIdentity = dialects.AnswerIdentity{Model: "model", ID: "0123456789", Created: 1700000000, Now: func() int64 { return 1700000005 }}

// checkWhole checks that the members that the answer repeats result in a valid response object.
func checkWhole(t *testing.T, a *Stream) {
	t.Helper()
	var c answer.ChatCompletion
	if err := c.Parse([]byte(`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)); err != nil {
		t.Fatal(err)
	}
	out, err := a.AppendCompletion(nil, &c)
	if err != nil {
		t.Fatal(err)
	}
	checkResponse(t, out)
}

// newStream returns a Stream for the request in body, by default the simplest request.
func newStream(tb testing.TB, body []byte) *Stream {
	tb.Helper()
	if len(body) == 0 {
		body = []byte(`{"model":"model","input":"Hello"}`)
	}
	tr, err := translateBody(body, dialects.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tr.answer.Reset(&testIdentity)
	return &tr.answer
}

// relay passes an engine's stream to the Stream a. It writes a failure to out and returns it.
func relay(a *Stream, src io.Reader) (out []byte, failure error) {
	r := sse.NewReader(src, 8<<20)
	for !a.IsDone() {
		ev, err := r.NextEvent()
		if err == io.EOF {
			break
		}
		if err == nil {
			out, err = a.Append(out, ev)
		}
		if err != nil {
			return a.AppendFailure(out, testError(err)), err
		}
	}
	whole, err := a.Finish(out)
	if err != nil {
		return a.AppendFailure(out, testError(err)), err
	}
	return whole, nil
}

// testError replaces the proxy's table of failures.
func testError(err error) *apierr.Error {
	var e *engineerror.Error
	switch {
	case !errors.As(err, &e):
		return apierr.New(502, apierr.CodeUpstreamBadResponse, "The engine gave an answer that could not be understood.")
	case e.ClientFault:
		return MapError(apierr.Invalid("messages", apierr.CodeContextLength, "%s", e.Message))
	case e.Status == 429:
		return apierr.New(429, apierr.CodeCapacityFull, "The engines of this model are at capacity.")
	}
	return apierr.New(502, apierr.CodeUpstreamFailed, "The engine failed.")
}

func assemble(src io.Reader, strip bool) ([]byte, error) {
	var as answer.Assembler
	r := sse.NewReader(src, 8<<20)
	for !as.IsDone() {
		ev, err := r.NextEvent()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = as.AddEvent(ev)
		}
		if err != nil {
			return nil, err
		}
	}
	return as.AppendCompletion(nil, &answer.WriteOptions{Model: "model", ID: "0123456789", Created: 1700000000, StripReasoning: strip})
}

func translateWhole(a *Stream, completion []byte) ([]byte, error) {
	var c answer.ChatCompletion
	if err := c.Parse(completion); err != nil {
		return nil, err
	}
	return a.AppendCompletion(nil, &c)
}

// TestAnswer runs the answer archives. Each archive contains the engine's stream, the client's
// stream and the client's whole answer. The whole answer is made from completion.json or, if the
// archive lacks this file, from the assembled stream.
func TestAnswer(t *testing.T) {
	golden.RunArchives(t, "testdata/answer", func(t *testing.T, ar *golden.Archive) {
		t.Helper()
		request, upstream := ar.Section("request.json"), ar.Section("upstream")
		var stream, response []byte
		var failure error
		if upstream != nil {
			stream, failure = relay(newStream(t, request), bytes.NewReader(upstream))
			checkEvents(t, stream, true)
		}
		completion := ar.Section("completion.json")
		if completion == nil && failure == nil {
			var err error
			if completion, err = assemble(bytes.NewReader(upstream), !newStream(t, request).RequestInfo.MustReadReasoning()); err != nil {
				t.Fatal(err)
			}
		}
		if completion != nil {
			var err error
			response, err = translateWhole(newStream(t, request), completion)
			if err != nil {
				response = []byte("!! " + err.Error())
			} else {
				checkResponse(t, response)
				if stream != nil && failure == nil {
					checkAgreement(t, stream, response)
				}
			}
		}
		if hidden := "HIDDEN"; bytes.Contains(stream, []byte(hidden)) || bytes.Contains(response, []byte(hidden)) {
			t.Error("reasoning is shown")
		}
		ar.SetSection("stream", stream)
		ar.SetSection("response.json", response)
	})
}

// checkAgreement checks that a stream and a whole answer have the same content. It first joins the
// texts, because a whole completion does not show the position of tool calls within a text.
func checkAgreement(t *testing.T, stream, response []byte) {
	t.Helper()
	var c checker
	events, _ := parseEvents(&c, stream)
	var whole map[string]any
	if err := json.Unmarshal(response, &whole); err != nil {
		t.Fatal(err)
	}
	streamed := events[len(events)-1].data["response"].(map[string]any)
	if d := cmp.Diff(contentsOf(streamed), contentsOf(whole)); d != "" {
		t.Errorf("stream and whole answer differ (-stream +whole):\n%s", d)
	}
}

// contentsOf returns the contents of a response without the division into items.
func contentsOf(response map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range response {
		out[name] = v
	}
	texts, calls := map[string]string{}, []any{}
	for _, item := range response["output"].([]any) {
		item := item.(map[string]any)
		if text, ok := callText(item); ok {
			args := text
			if item["type"] == "function_call" {
				args = strings.TrimRight(text.(string), " \t\r\n") // trailing whitespace is ignored
			}
			call := []any{item["type"], item["call_id"], item["name"], item["namespace"], args, item["status"]}
			calls = append(calls, call)
			continue
		}
		for _, part := range item["content"].([]any) {
			part := part.(map[string]any)
			for _, name := range []string{"text", "refusal"} {
				text, _ := part[name].(string)
				texts[name] += text
			}
		}
	}
	delete(out, "output")
	out["texts"], out["calls"] = texts, calls
	return out
}
