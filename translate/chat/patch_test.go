package chat

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"

	"penstock/config/testkit/golden"
)

// targetFile is an EngineFormat in the notation of the golden files.
type targetFile struct {
	EngineFormat
	Reasoning *struct {
		Words   []string
		Off, On []memberFile
		History string
	}
	Prefill []memberFile // if given, the last message of the request is the start of the answer
}

type memberFile struct {
	Name  string
	Value json.RawMessage
}

func membersOf(in []memberFile) (out []Member) {
	for _, m := range in {
		out = append(out, Member{m.Name, m.Value})
	}
	return out
}

func (f *targetFile) engineFormat() *EngineFormat {
	t := f.EngineFormat
	if r := f.Reasoning; r != nil {
		t.Reasoning = &ReasoningFormat{Words: r.Words, Off: membersOf(r.Off), On: membersOf(r.On), History: r.History}
	}
	t.Prefill = membersOf(f.Prefill)
	return &t
}

// TestAppendEngineRequest runs the archives in testdata/encode. Each has a target, optional limits,
// the client's request and the engine's request.
func TestAppendEngineRequest(t *testing.T) {
	var r Request // reused for all cases, to check that Reset clears everything
	golden.RunArchives(t, "testdata/encode", func(t *testing.T, a *golden.Archive) {
		var target targetFile
		var limits ModelRules
		for name, into := range map[string]any{"target": &target, "limits": &limits} {
			if text := a.Section(name); text != nil {
				if err := json.Unmarshal(text, into); err != nil {
					t.Fatalf("section %s: Unmarshal = %v, want success", name, err)
				}
			}
		}
		if err := r.Decode(bytes.TrimSuffix(a.Section("request"), []byte("\n"))); err != nil {
			t.Fatal(err)
		}
		if err := r.CheckRules(&limits); err != nil {
			t.Fatal(err)
		}
		r.Prefilled = len(target.Prefill) > 0
		got := r.AppendEngineRequest(nil, target.engineFormat())
		if !json.Valid(got) {
			t.Errorf("not JSON: %s", got)
		}
		if again := r.AppendEngineRequest([]byte("x"), target.engineFormat()); string(again[1:]) != string(got) || again[0] != 'x' {
			t.Errorf("the second time: %s", again)
		}
		a.SetSection("upstream-request", got)
	})
}

// TestSegments checks that a large body is not copied.
func TestSegments(t *testing.T) {
	body := chatBody(100 << 10)
	var r Request
	if err := r.Decode(body); err != nil {
		t.Fatal(err)
	}
	target := &EngineFormat{Served: "org/llama", TokenMember: "max_completion_tokens", ContinuousUsage: true}
	want := r.AppendEngineRequest(nil, target)
	segments, scratch := r.AppendSegments(nil, make([]byte, 0, 8), target)
	if got := bytes.Join(segments, nil); !bytes.Equal(got, want) {
		t.Error("the segments are not what AppendEngineRequest writes")
	}
	if len(scratch) > 100 {
		t.Errorf("%d bytes of new text", len(scratch))
	}
	inside := 0
	for _, s := range segments {
		if len(s) == 0 {
			t.Error("an empty segment")
		}
		if len(s) > 1000 {
			inside++
			if i := bytes.Index(body, s); i < 0 || &body[i] != &s[0] {
				t.Error("a large segment is a copy")
			}
		}
	}
	if inside == 0 {
		t.Error("no segment of the body")
	}
}

func TestInDigits(t *testing.T) {
	for _, raw := range []string{"", "0", "-0", "7", "-7", "10", "100", "1e2", "1.0", "10.0", "500", "-500", "9223372036854775807", "-9223372036854775807", `"1"`, "null"} {
		for _, n := range []int64{0, 1, 7, -7, 10, 100, 500, -500, 50, math.MaxInt64, -math.MaxInt64} {
			if got, want := isPlainInteger([]byte(raw), n), raw == strconv.FormatInt(n, 10); got != want {
				t.Errorf("isPlainInteger(%s, %d) = %v, want %v", raw, n, got, want)
			}
		}
	}
}
