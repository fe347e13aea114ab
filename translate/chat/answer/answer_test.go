package answer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
	"penstock/translate"
	"penstock/translate/engineerror"
	"penstock/translate/sse"
)

// parseAnswer reads an `answer` section, which has one "name: value" on each line.
func parseAnswer(t *testing.T, text []byte) WriteOptions {
	t.Helper()
	a := WriteOptions{ID: "chatcmpl-ours", Created: 1234567890}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "model":
			a.Model = value
		case "n":
			a.N, _ = strconv.Atoi(value)
		case "include_usage":
			a.IncludeUsage = value == "true"
		case "continuous_usage":
			a.ContinuousUsage = value == "true"
		case "strip_reasoning":
			a.StripReasoning = value == "true"
		default:
			t.Fatalf("unknown line in the answer section: %q", line)
		}
	}
	return a
}

// relay passes upstream bytes through s and returns the client's bytes. If the stream fails, the
// last line starts with "!!".
func relay(s *Stream, a *WriteOptions, src io.Reader) []byte {
	s.Reset(a)
	r := sse.NewReader(src, 8<<20)
	var out []byte
	for {
		ev, err := r.NextEvent()
		if err == nil {
			if out, err = s.Append(out, ev); err == nil {
				continue
			}
		} else if errors.Is(err, io.EOF) {
			out, err = s.Finish(out)
		}
		if err != nil {
			out = fmt.Appendf(out, "!! %s\n", describe(err))
		}
		return out
	}
}

func assemble(as *Assembler, a *WriteOptions, src io.Reader) []byte {
	as.Reset()
	r := sse.NewReader(src, 8<<20)
	for {
		ev, err := r.NextEvent()
		if err == nil {
			if err = as.AddEvent(ev); err == nil {
				continue
			}
		} else if errors.Is(err, io.EOF) {
			var out []byte
			if out, err = as.AppendCompletion(nil, a); err == nil {
				return append(out, '\n')
			}
		}
		return fmt.Appendf(nil, "!! %s\n", describe(err))
	}
}

// describe returns all fields of an error as text.
func describe(err error) string {
	text := err.Error()
	var e *engineerror.Error
	if errors.As(err, &e) {
		text += fmt.Sprintf(" | status=%d type=%q code=%q message=%q client=%v", e.Status, e.Type, e.Code, e.Message, e.ClientFault)
		if e.ContextOverflow {
			text += fmt.Sprintf(" context=%d>%d", e.ContextPrompt, e.ContextMax)
		}
	}
	return text
}

func TestStreamGolden(t *testing.T) {
	var s Stream // reused for all cases, as a pool does
	var as Assembler
	golden.RunArchives(t, "testdata/stream", func(t *testing.T, ar *golden.Archive) {
		a := parseAnswer(t, ar.Section("answer"))
		upstream := ar.Section("upstream")
		client := relay(&s, &a, bytes.NewReader(upstream))
		usage := fmt.Sprintf("%s\ndeltas=%d started=%v done=%v whole=%v\n", usageText(s.Usage()), s.state.deltas, s.HasStarted(), s.IsDone(), s.IsFinished())
		assembled := assemble(&as, &a, bytes.NewReader(upstream))
		counts := s.Usage()
		if strings.HasPrefix(string(assembled), "!!") { // the Assembler stopped before the end
			counts.Finish = as.Usage().Finish
		}
		if counts != as.Usage() || s.state.deltas != as.state.deltas {
			t.Errorf("Stream counts %v in %d deltas, Assembler %v in %d", s.Usage(), s.state.deltas, as.Usage(), as.state.deltas)
		}
		checkUsageEvents(t, client, a.ContinuousUsage)
		checkAssembled(t, assembled)
		ar.SetSection("client", []byte(string(client)))
		ar.SetSection("usage", []byte(usage))
		ar.SetSection("assembled", assembled)
	})
}

func TestCompletionGolden(t *testing.T) {
	var c ChatCompletion
	golden.RunArchives(t, "testdata/whole", func(t *testing.T, ar *golden.Archive) {
		a := parseAnswer(t, ar.Section("answer"))
		var out []byte
		usage := ""
		body := bytes.TrimSpace(ar.Section("upstream"))
		plain, facts, isPlain := AppendSimpleAnswer(nil, body, &a)
		if err := c.Parse(body); err != nil {
			if isPlain {
				t.Error("AppendSimpleAnswer takes it")
			}
			out = fmt.Appendf(out, "!! %s\n", describe(err))
		} else {
			out = append(c.Append(nil, &a), '\n')
			if want := (Facts{c.Usage(), c.Markup()}); isPlain && (string(plain)+"\n" != string(out) || facts != want) {
				t.Errorf("AppendSimpleAnswer makes %s with %v, want %v", plain, facts, want)
			}
			usage = usageText(c.Usage()) + "\n"
			checkAssembled(t, out)
		}
		ar.SetSection("client", out)
		ar.SetSection("usage", []byte(usage))
	})
}

func usageText(u translate.Usage) string {
	return fmt.Sprintf("prompt=%d completion=%d total=%d cached=%d reasoning=%d known=%v estimated=%v",
		u.Prompt, u.Completion, u.Total, u.Cached, u.Reasoning, u.Known, u.Estimated)
}
