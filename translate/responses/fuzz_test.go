package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/golden"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/chat/answer"
	"penstock/translate/dialects"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// archiveSections returns the section name of every archive in a folder.
func archiveSections(tb testing.TB, folder, name string) map[string][]byte {
	tb.Helper()
	all := map[string][]byte{}
	for file, a := range golden.ReadArchives(tb, filepath.Join("testdata", folder)) {
		if text := a.Section(name); text != nil {
			all[file] = text
		}
	}
	return all
}

// checkedOnlyByChat lists the members that only chat.Request.Decode checks. FuzzDecode ignores
// errors about these members.
var checkedOnlyByChat = []string{
	"model", "temperature", "top_p", "reasoning.effort", "input",
	"presence_penalty", "frequency_penalty", "stop", "seed", "top_k", "min_p", "repetition_penalty", "logit_bias", "top_logprobs", "response_format",
}

// FuzzDecode checks that, for any body, an error is typed and does not quote the body, and that an
// accepted body becomes a valid chat request.
func FuzzDecode(f *testing.F) {
	for _, body := range archiveSections(f, "request", "request.json") {
		f.Add(body, false, false)
		f.Add(body, true, true)
	}
	var r Request
	f.Fuzz(func(t *testing.T, body []byte, strict, place bool) {
		var e *apierr.Error
		o := dialects.Options{Strict: strict}
		if place {
			o.InPlace = inPlace
		}
		var checked Request
		if err := checked.check(bytes.Clone(body), &o); err != nil {
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("not a typed error: %v", err)
			}
			return
		}
		var c chat.Request
		var a Stream
		out, err := r.Decode([]byte("before"), body, &c, &a.RequestInfo, o)
		if err != nil {
			if !errors.As(err, &e) || e.Status != 400 {
				t.Fatalf("not a typed error: %v", err)
			}
			for _, param := range checkedOnlyByChat {
				if strings.HasPrefix(e.Param, param) {
					return
				}
			}
			t.Fatalf("chat refuses what was accepted: %v, %s\n%s\n%s", err, e.Message, body, out)
		}
		if !json.Valid(out[len("before"):]) {
			t.Fatalf("not JSON: %s", out)
		}
		a.Reset(&testIdentity)
		var completion answer.ChatCompletion
		if err := completion.Parse([]byte(`{"choices":[{"index":0,"message":{"content":"x"},"finish_reason":"stop"}]}`)); err != nil {
			t.Fatal(err)
		}
		response, err := a.AppendCompletion(nil, &completion)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		// An exponent that is out of range.
		if json.Unmarshal(response, &v) != nil && !bytes.ContainsAny(response, "eE") {
			t.Fatalf("not JSON: %s", response)
		}
		if v != nil {
			checkResponse(t, response)
		}
	})
}

// cutReader splits its bytes into two reads.
type cutReader struct {
	data []byte
	at   int
}

func (c *cutReader) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if c.at > 0 && c.at < n {
		n = c.at
	}
	n = copy(p, c.data[:n])
	c.data, c.at = c.data[n:], c.at-n
	return n, nil
}

// TestFramingIsNotObservable checks that the client receives the same bytes wherever the engine's
// bytes are split, for every golden stream.
func TestFramingIsNotObservable(t *testing.T) {
	t.Parallel()
	for name, src := range archiveSections(t, "answer", "upstream") {
		a := newStream(t, nil)
		want, _ := relay(a, bytes.NewReader(src))
		for at := range len(src) {
			a.Reset(&testIdentity)
			if got, _ := relay(a, &cutReader{src, at}); !bytes.Equal(got, want) {
				t.Fatalf("%s, cut at %d: %s", name, at, cmp.Diff(string(want), string(got)))
			}
		}
		a.Reset(&testIdentity)
		if got, _ := relay(a, iotest.OneByteReader(bytes.NewReader(src))); !bytes.Equal(got, want) {
			t.Errorf("%s, byte by byte: %s", name, cmp.Diff(string(want), string(got)))
		}
	}
}

// FuzzStream checks that the client receives well-ordered events, whatever the engine sends. If the
// stream does not fail, it must have the same content as the whole answer.
func FuzzStream(f *testing.F) {
	for _, src := range archiveSections(f, "answer", "upstream") {
		f.Add(src, uint16(0))
		f.Add(src, uint16(len(src)/2))
	}
	body := []byte(`{"model":"model","input":"Hello"}`)
	f.Fuzz(func(t *testing.T, src []byte, cut uint16) {
		if cut > 0 && int(cut) < len(src) {
			src = src[:cut]
		}
		a := newStream(t, body)
		out, err := relay(a, bytes.NewReader(src))
		checkEvents(t, out, true)
		alive, _ := relayWithKeepalives(t, newStream(t, body), bytes.NewReader(src))
		checkKeptAlive(t, alive)
		if err != nil {
			var bad *translate.BadAnswerError
			var engine *engineerror.Error
			if !errors.As(err, &bad) && !errors.As(err, &engine) && !errors.Is(err, translate.ErrNoFinish) && !errors.Is(err, sse.ErrTooLong) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		completion, err := assemble(bytes.NewReader(src), true)
		if err != nil {
			return // other choices, which this stream has not read
		}
		var c answer.ChatCompletion
		if c.Parse(completion) != nil || a.Usage().Estimated || c.Choices().Len() > 1 {
			return
		}
		response, err := translateWhole(newStream(t, body), completion)
		if err != nil {
			t.Fatal(err)
		}
		checkResponse(t, response)
		if !bytes.Contains(src, []byte(`\u`)) { // joining two texts may turn surrogate halves into a pair
			checkAgreement(t, out, response)
		}
	})
}
