package answer

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"penstock/config/testkit/golden"
	"penstock/config/testkit/raced"
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat/toolcall"
	"penstock/translate/sse"
)

// upstreams returns the upstream streams in the golden archives and their options, both keyed by
// name.
func upstreams(t testing.TB) (names []string, streams map[string][]byte, answers map[string]WriteOptions) {
	t.Helper()
	streams, answers = map[string][]byte{}, map[string]WriteOptions{}
	for name, a := range golden.ReadArchives(t, "testdata/stream") {
		names = append(names, name)
		streams[name] = a.Section("upstream")
		if t, ok := t.(*testing.T); ok {
			answers[name] = parseAnswer(t, a.Section("answer"))
		}
	}
	return names, streams, answers
}

// pieces is a reader that returns its bytes in pieces of random sizes.
type pieces struct {
	data []byte
	rand *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.data[:min(len(p.data), 1+p.rand.IntN(300))])
	p.data = p.data[n:]
	return n, nil
}

// TestFramingIsNotObservable checks that the client receives the same bytes, however the upstream
// bytes are split.
func TestFramingIsNotObservable(t *testing.T) {
	names, streams, answers := upstreams(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var s Stream
	var as Assembler
	for _, name := range names {
		src, a := streams[name], answers[name]
		want, whole := relay(&s, &a, bytes.NewReader(src)), assemble(&as, &a, bytes.NewReader(src))
		readers := map[string]func() io.Reader{
			"one byte": func() io.Reader { return iotest.OneByteReader(bytes.NewReader(src)) },
			"data and EOF": func() io.Reader {
				return iotest.DataErrReader(bytes.NewReader(src))
			},
			"random": func() io.Reader { return &pieces{src, rnd} },
			"CRLF":   func() io.Reader { return bytes.NewReader(bytes.ReplaceAll(src, []byte("\n"), []byte("\r\n"))) },
		}
		for cut, reader := range readers {
			if cut == "CRLF" && bytes.Contains(src, []byte("\r")) {
				continue
			}
			if got := relay(&s, &a, reader()); !bytes.Equal(got, want) {
				t.Errorf("%s, %s: client gets something else:\n%s", name, cut, cmp.Diff(string(want), string(got)))
			}
			if got := assemble(&as, &a, reader()); !bytes.Equal(got, whole) {
				t.Errorf("%s, %s: assembled is something else", name, cut)
			}
		}
	}
}

// forceParsing returns an event that has the same effect as ev, but that a Stream always parses.
// The returned event has a name, which the fast paths do not accept.
func forceParsing(ev sse.Event) sse.Event {
	if len(ev.Name) == 0 {
		ev.Name = []byte("message")
	}
	return ev
}

// TestRepeatIsNotObservable checks that the fast path has the same result as parsing.
func TestRepeatIsNotObservable(t *testing.T) {
	names, streams, answers := upstreams(t)
	shortcuts := 0
	for _, name := range names {
		a := answers[name]
		var short, long Stream
		short.Reset(&a)
		long.Reset(&a)
		r := sse.NewReader(bytes.NewReader(streams[name]), 8<<20)
		for {
			ev, err := r.NextEvent()
			if err != nil {
				break
			}
			if _, same := short.template.matchText(ev.Data); same {
				shortcuts++
			}
			got, gotErr := short.Append(nil, ev)
			want, wantErr := long.Append(nil, forceParsing(ev))
			if !bytes.Equal(got, want) || (gotErr == nil) != (wantErr == nil) {
				t.Fatalf("%s: event %q: got %q, %v; want %q, %v", name, ev.Data, got, gotErr, want, wantErr)
			}
			if !reflect.DeepEqual(short.state, long.state) || short.started != long.started {
				t.Fatalf("%s: event %q: counted differently: %+v, %+v", name, ev.Data, short.state, long.state)
			}
			if gotErr != nil {
				break
			}
		}
	}
	if shortcuts < 100 {
		t.Errorf("the short cut was taken %d times, expected it in most chunks", shortcuts)
	}
}

func FuzzStream(f *testing.F) {
	names, streams, _ := upstreams(f)
	for _, name := range names {
		f.Add(streams[name], uint8(0))
		f.Add(streams[name], uint8(7))
	}
	f.Fuzz(func(t *testing.T, upstream []byte, options uint8) {
		a := WriteOptions{
			Model: "public", ID: "chatcmpl-ours", Created: 1,
			IncludeUsage: options&1 != 0, StripReasoning: options&2 != 0, N: int(options >> 2 & 3),
		}
		var s Stream
		out := relay(&s, &a, bytes.NewReader(upstream))
		checkEvents(t, out)
		if failed := bytes.Contains(out, []byte("!! ")); !failed && !bytes.HasSuffix(out, []byte("data: [DONE]\n\n")) {
			t.Errorf("ended without failure and without [DONE]: %q", out)
		}
		var as Assembler
		checkAssembled(t, assemble(&as, &a, bytes.NewReader(upstream)))

		// Compare the fast path with parsing.
		var long Stream
		long.Reset(&a)
		s = Stream{}
		s.Reset(&a)
		r := sse.NewReader(bytes.NewReader(upstream), 8<<20)
		for {
			ev, err := r.NextEvent()
			if err != nil {
				break
			}
			got, gotErr := s.Append(nil, ev)
			want, wantErr := long.Append(nil, forceParsing(ev))
			if !bytes.Equal(got, want) || (gotErr == nil) != (wantErr == nil) || !reflect.DeepEqual(s.state, long.state) {
				t.Fatalf("event %q: got %q, %v; want %q, %v", ev.Data, got, gotErr, want, wantErr)
			}
			if gotErr != nil {
				break
			}
		}
	})
}

// FuzzEvent checks events that an sse.Reader would never return.
func FuzzEvent(f *testing.F) {
	f.Add([]byte("error"), []byte(`{"error":"x"}`))
	f.Add([]byte(""), []byte("{\"choices\":\r\n[{\"index\":0,\"delta\":{\"reasoning\":\"a\"},\"finish_reason\":\"stop\"}],\n\"usage\":{\"prompt_tokens\":1}}"))
	f.Add([]byte("message"), []byte(" [DONE] "))
	f.Fuzz(func(t *testing.T, name, data []byte) {
		before := bytes.Clone(data)
		for _, a := range []WriteOptions{{Model: "m"}, {Model: "m", IncludeUsage: true}, {Model: "m", StripReasoning: true}} {
			var s Stream
			s.Reset(&a)
			out, _ := s.Append(nil, sse.Event{Name: name, Data: data})
			out, _ = s.Append(out, sse.Event{Name: name, Data: data})
			out, _ = s.Finish(out)
			checkEvents(t, out)
			var as Assembler
			_ = as.AddEvent(sse.Event{Name: name, Data: data})
			_ = as.AddEvent(sse.Event{Name: name, Data: data})
			if out, err := as.AppendCompletion(nil, &a); err == nil {
				checkAssembled(t, out)
			}
		}
		if !bytes.Equal(before, data) {
			t.Error("the event's data was changed")
		}
	})
}

func FuzzCompletion(f *testing.F) {
	for _, a := range golden.ReadArchives(f, "testdata/whole") {
		f.Add(a.Section("upstream"), true)
	}
	var c ChatCompletion
	f.Fuzz(func(t *testing.T, body []byte, strip bool) {
		o := WriteOptions{Model: "public", ID: "i", StripReasoning: strip}
		plain, facts, isPlain := AppendSimpleAnswer(nil, body, &o)
		if err := c.Parse(body); err != nil {
			if isPlain {
				t.Errorf("%q is plain, but %v", body, err)
			}
			return
		}
		out := c.Append(nil, &o)
		if isPlain && (!bytes.Equal(plain, out) || facts != Facts{c.Usage(), c.Markup()}) {
			t.Errorf("%q became %q with %v, want %q with %v", body, plain, facts, out, Facts{c.Usage(), c.Markup()})
		}
		if !json.Valid(out) || !bytes.Contains(out, []byte(`"public"`)) {
			t.Errorf("%q became %q, want JSON with the public name", body, out)
		}
		if u := c.Usage(); u.Total < u.Prompt+u.Completion || u.Cached > u.Prompt || u.Known == u.Estimated {
			t.Errorf("got the inconsistent usage %v", u)
		}
	})
}

func TestStreamAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range streamCases {
		t.Run(c.name, func(t *testing.T) {
			var s Stream
			s.Reset(&c.answer)
			events := []sse.Event{
				{Data: []byte(c.data)},
				// The fast path does not apply.
				{Data: []byte(strings.Replace(c.data, `"index":0`, `"index":1`, 1))},
			}
			var dst []byte
			step := func() {
				for _, ev := range events {
					var err error
					if dst, err = s.Append(dst[:0], ev); err != nil {
						t.Fatal(err)
					}
				}
			}
			step()
			if n := testing.AllocsPerRun(1000, step); n != 0 {
				t.Errorf("%v allocations for two events, want 0", n)
			}
			// A reused Stream allocates nothing for a whole call.
			if n := testing.AllocsPerRun(100, func() {
				s.Reset(&c.answer)
				step()
			}); n != 0 {
				t.Errorf("%v allocations for a call, want 0", n)
			}
		})
	}
}

func TestCompletionAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	body := []byte(`{"id":"c","object":"chat.completion","created":1,"model":"served","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","reasoning":"h"},"finish_reason":"stop"}]}`)
	var c ChatCompletion
	var dst []byte
	a := WriteOptions{Model: "public", StripReasoning: true}
	step := func() {
		if err := c.Parse(body); err != nil {
			t.Fatal(err)
		}
		dst = c.Append(dst[:0], &a)
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestAssembledShape checks that a completion assembled from a stream has the same shape as a whole
// answer from the same engine.
func TestAssembledShape(t *testing.T) {
	tests := []struct{ stream, whole string }{
		{"llamacpp-usage", "llamacpp-chat"},
		{"llamacpp-tools", "llamacpp-tools"},
		{"ollama-usage", "ollama-chat"},
	}
	for _, test := range tests {
		t.Run(test.stream, func(t *testing.T) {
			got := jsonShape(t, archiveSection(t, "stream", test.stream, "assembled"))
			want := jsonShape(t, archiveSection(t, "whole", test.whole, "upstream"))
			// The SDKs' types require two null members that these engines omit. If a message has
			// only tool calls, llama.cpp writes "" as the content, and the contract requires null.
			allowed := map[string]bool{
				"choices.message.refusal null": true, "choices.logprobs null": true,
				"choices.message.content null": true, "choices.message.content string": true,
			}
			for _, path := range got {
				if !slices.Contains(want, path) && !allowed[path] {
					t.Errorf("has %s, which the engine's own has not", path)
				}
			}
			for _, path := range want {
				if !slices.Contains(got, path) && !allowed[path] {
					t.Errorf("got no %s, want the engine's member", path)
				}
			}
		})
	}
}

func archiveSection(t *testing.T, dir, name, part string) []byte {
	t.Helper()
	text := golden.ReadArchive(t, filepath.Join("testdata", dir, name+".txtar")).Section(part)
	if text == nil {
		t.Fatalf("no section %s", part)
	}
	return text
}

// jsonShape lists the paths in a JSON text with their types.
func jsonShape(t *testing.T, text []byte) (paths []string) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		kind := ""
		switch v := v.(type) {
		case map[string]any:
			for name, m := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), m)
			}
			return
		case []any:
			for _, e := range v {
				walk(path, e)
			}
			return
		case nil:
			kind = "null"
		case string:
			kind = "string"
		case float64:
			kind = "number"
		case bool:
			kind = "boolean"
		}
		paths = append(paths, path+" "+kind)
	}
	walk("", v)
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TestAssembleAnySplit checks that the assembled answer has the same text, however the text is
// split into deltas.
func TestAssembleAnySplit(t *testing.T) {
	const text = "A \"quoted\" word, a tab\t, ümläute, \U0001d11e and \\ escapes"
	quoted, _ := json.Marshal(text)
	rnd := rand.New(rand.NewPCG(3, 4))
	var as Assembler
	for range 200 {
		as.Reset()
		rest := []rune(text)
		for len(rest) > 0 {
			n := 1 + rnd.IntN(len(rest))
			piece, _ := json.Marshal(string(rest[:n]))
			rest = rest[n:]
			chunk := `{"id":"c","created":1,"choices":[{"index":0,"delta":{"content":` + string(piece) + `},"finish_reason":null}]}`
			if err := as.AddEvent(sse.Event{Data: []byte(chunk)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := as.AddEvent(sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)}); err != nil {
			t.Fatal(err)
		}
		out, err := as.AppendCompletion(nil, &WriteOptions{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(out, quoted) {
			t.Fatalf("%s does not have %s", out, quoted)
		}
	}
}

func TestAssemblerIsBounded(t *testing.T) {
	var bad *translate.BadAnswerError
	t.Run("bytes", func(t *testing.T) {
		var as Assembler
		chunk := []byte(`{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}`)
		for n := 1; ; n++ {
			err := as.AddEvent(sse.Event{Data: chunk})
			if err == nil && n <= 33 {
				continue
			}
			if !errors.As(err, &bad) || bad.Reason != translate.ReasonTooLarge || n < 31 {
				t.Fatalf("event %d: got the error %v, want ReasonTooLarge", n, err)
			}
			return
		}
	})
	t.Run("calls", func(t *testing.T) {
		var as Assembler
		for n := 0; ; n++ {
			err := as.AddEvent(sse.Event{Data: []byte(`{"choices":[{"delta":{"tool_calls":[{"id":"` + strconv.Itoa(n) + `","function":{"name":"f"}}]}}]}`)})
			if err == nil && n <= toolcall.MaxToolCallsPerChoice {
				continue
			}
			if !errors.As(err, &bad) || bad.Reason != reasonTooManyToolCalls || n != toolcall.MaxToolCallsPerChoice {
				t.Fatalf("call %d: got the error %v, want too many tool calls", n, err)
			}
			return
		}
	})
	t.Run("members", func(t *testing.T) {
		var as Assembler
		for n := 0; ; n++ {
			err := as.AddEvent(sse.Event{Data: []byte(`{"choices":[],"m` + strconv.Itoa(n) + `":1}`)})
			if err == nil && n <= maxPassedMembers {
				continue
			}
			if !errors.As(err, &bad) || bad.Reason != translate.ReasonTooLarge || n != maxPassedMembers {
				t.Fatalf("member %d: got the error %v, want ReasonTooLarge", n, err)
			}
			return
		}
	})
}

func TestStreamLargeEvent(t *testing.T) {
	text := strings.Repeat(`\"ü`, 1<<20)
	data := []byte(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`)
	var s Stream
	s.Reset(&WriteOptions{Model: "public"})
	out, err := s.Append(nil, sse.Event{Data: data})
	if err != nil || !bytes.Contains(out, []byte(text)) || !bytes.Contains(out, []byte(`"model":"public"`)) {
		t.Fatalf("got %d bytes, error %v, want the text under the public name", len(out), err)
	}
	s.Reset(nil)
	if cap(s.template.buf)+cap(s.held.event)+cap(s.identity.id) > maxKeptBuffer {
		t.Error("keeps a large buffer")
	}
}

func TestFail(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "public"})
	out := s.AppendKeepalive(nil)
	out, err := s.Append(out, sse.Event{Data: []byte(vllmChunk)})
	if err != nil {
		t.Fatal(err)
	}
	out = s.AppendKeepalive(out)
	out = s.AppendFailure(out, apierr.New(502, apierr.CodeUpstreamFailed, "The engine failed."))
	out = s.AppendFailure(out, apierr.New(502, apierr.CodeUpstreamFailed, "Twice."))
	checkEvents(t, out)
	const want = `data: {"error":{"message":"The engine failed.","type":"api_error","code":"upstream_failed","param":null}}` + "\n\n"
	if !bytes.HasSuffix(out, []byte(want)) || bytes.Contains(out, []byte("[DONE]")) {
		t.Errorf("got %s, want it to end with %s", out, want)
	}
}

func TestFinishTwice(t *testing.T) {
	var s Stream
	s.Reset(&WriteOptions{Model: "public"})
	out, err := s.Append(nil, sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if out, err = s.Finish(out); err != nil {
		t.Fatal(err)
	}
	again, err := s.Finish(nil)
	if err != nil || len(again) > 0 {
		t.Errorf("second Finish: %q, %v", again, err)
	}
	if failed := s.AppendFailure(nil, apierr.New(502, "x", "y")); len(failed) > 0 {
		t.Errorf("Fail behind [DONE]: %q", failed)
	}
	checkEvents(t, out)
}

// TestResetForgets checks that a reused Stream reveals nothing about an earlier call.
func TestResetForgets(t *testing.T) {
	names, streams, answers := upstreams(t)
	var used Stream
	for _, name := range names {
		a := answers[name]
		relay(&used, &WriteOptions{Model: "canary", ID: "canary", IncludeUsage: true}, strings.NewReader("data: "+strings.ReplaceAll(usageChunk, "chatcmpl", "canary")+"\n\n"))
		var fresh Stream
		got, want := relay(&used, &a, bytes.NewReader(streams[name])), relay(&fresh, &a, bytes.NewReader(streams[name]))
		if !bytes.Equal(got, want) || bytes.Contains(got, []byte("canary")) {
			t.Errorf("%s: a used Stream gives something else:\n%s", name, cmp.Diff(string(want), string(got)))
		}
		if used.Usage() != fresh.Usage() {
			t.Errorf("%s: usage %v, want %v", name, used.Usage(), fresh.Usage())
		}
	}
}

func TestAssembledCallIDsDiffer(t *testing.T) {
	var as Assembler
	chunk := `{"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`
	if err := as.AddEvent(sse.Event{Data: []byte(chunk)}); err != nil {
		t.Fatal(err)
	}
	out, err := as.AppendCompletion(nil, &WriteOptions{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	checkAssembled(t, out)
	if !bytes.Contains(out, []byte(`"id":"a"`)) {
		t.Errorf("the first call lost its id: %s", out)
	}
}

// TestCorpusIsThere checks that the corpus exists. If it were missing, the tests that read it would
// pass without running any case.
func TestCorpusIsThere(t *testing.T) {
	for _, dir := range []string{"stream", "whole"} {
		entries, err := os.ReadDir(filepath.Join("testdata", dir))
		if err != nil || len(entries) < 20 {
			t.Errorf("testdata/%s has %d archives: %v", dir, len(entries), err)
		}
	}
}
