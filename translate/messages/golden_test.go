package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/sse"
)

var update = flag.Bool("update", false, "rewrite the golden archives")

// archives runs f for each archive of a folder under testdata. What f returns are the sections that follow from the others;
// they are compared, or written with -update.
func archives(t *testing.T, folder string, f func(t *testing.T, in map[string][]byte) []txtar.File) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in := map[string][]byte{}
			for _, f := range ar.Files {
				in[f.Name] = f.Data
			}
			got := f(t, in)
			derived := map[string]bool{"upstream-request": true, "error": true, "read": true, "response": true, "whole": true, "engine-request": true}
			want := &txtar.Archive{Comment: ar.Comment}
			for _, f := range ar.Files {
				if !derived[f.Name] {
					want.Files = append(want.Files, f)
				}
			}
			want.Files = append(want.Files, got...)
			if *update {
				if err := os.WriteFile(file, txtar.Format(want), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(ar)), string(txtar.Format(want))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func section(name, text string) txtar.File {
	return txtar.File{Name: name, Data: []byte(strings.TrimSuffix(text, "\n") + "\n")}
}

func errorText(err error) string {
	var a *apierr.Error
	if errors.As(err, &a) {
		text := fmt.Sprintf("%d %s %s\nparam: %s\n%s", a.Status, a.Type, a.Code, a.Param, a.Message)
		if a.DetailCode != "" {
			text += "\ndetails: " + a.DetailCode
		}
		return text
	}
	return err.Error()
}

// TestRequests translates the requests of testdata/request. The numbers in the names are those of the list of hard cases.
func TestRequests(t *testing.T) {
	archives(t, "request", func(t *testing.T, in map[string][]byte) []txtar.File {
		o := optionsOf(t, in["options"])
		body := bytes.TrimSuffix(in["request"], []byte("\n"))
		var (
			r Request
			c chat.Request
		)
		out, err := r.Decode(nil, body, &c, o)
		if err != nil {
			var a *apierr.Error
			if !errors.As(err, &a) || a.Status != 400 {
				t.Fatalf("the error is none for a client: %v", err)
			}
			return []txtar.File{section("error", errorText(err))}
		}
		if bytes.Contains(out, []byte("SECRET")) {
			t.Errorf("what is to be left out reaches the engine: %s", out)
		}
		files := []txtar.File{section("upstream-request", string(out))}
		if r.Echo.Thinking || r.Echo.Stops != nil {
			files = append(files, section("read", fmt.Sprintf("thinking %v, stops %q", r.Echo.Thinking, r.Echo.Stops)))
		}
		if c.Prefilled {
			files = append(files, section("read", "prefilled"))
		}
		return files
	})
}

func optionsOf(t *testing.T, text []byte) (o Options) {
	for _, word := range strings.Fields(string(text)) {
		switch word {
		case "in_place":
			o.InPlace = func(model []byte) bool { return string(model) == "m" }
		case "strict":
			o.Strict = true
		case "count":
			o.Count = true
		default:
			t.Fatalf("unknown option %q", word)
		}
	}
	return o
}

func echoOf(t testing.TB, text []byte) *Echo {
	e := &Echo{Model: "public", ID: "msg_1", RequestID: "req_1"}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if stop, ok := strings.CutPrefix(line, "stop "); ok {
			e.Stops = append(e.Stops, stop)
		} else if line == "thinking" {
			e.Thinking = true
		} else {
			t.Fatalf("unknown line %q", line)
		}
	}
	return e
}

// failed is the error that the streams of the tests end with.
var failed = apierr.New(529, apierr.CodeUpstreamFailed, "The engine failed.")

// stream runs a stream of an engine through s, as the proxy does, and returns what the client gets.
func stream(s *Stream, e *Echo, upstream []byte) (out []byte, err error) {
	s.Reset(e)
	r := sse.NewReader(bytes.NewReader(upstream), 1<<20)
	for {
		ev, readErr := r.Next()
		if readErr != nil {
			break
		}
		if out, err = s.Append(out, ev); err != nil {
			return s.Fail(out, failed), err
		}
		if s.Done() {
			break
		}
	}
	if out, err = s.Finish(out); err != nil {
		return s.Fail(out, failed), err
	}
	return out, nil
}

// whole assembles the completion that a stream of an engine amounts to and translates that.
func wholeOf(e *Echo, upstream []byte) ([]byte, error) {
	var a chat.Assembler
	r := sse.NewReader(bytes.NewReader(upstream), 1<<20)
	for !a.Done() {
		ev, err := r.Next()
		if err != nil {
			break
		}
		if err := a.Add(ev); err != nil {
			return nil, err
		}
	}
	body, err := a.Append(nil, &chat.Answer{Model: "public", ID: "msg_1"})
	if err != nil {
		return nil, err
	}
	var c chat.Completion
	if err := c.Parse(body); err != nil {
		return nil, err
	}
	return AppendResponse(nil, &c, e)
}

// streamAlone reports whether err ends a stream whose whole answer is none the worse: what is told of it already reads as an
// object, or as the beginning of one.
func streamAlone(err error) bool { return errors.Is(err, errArguments) || errors.Is(err, errLate) }

// TestAnswers translates the engine's streams of testdata/answer, as a stream and as a whole, and holds the two to each
// other.
func TestAnswers(t *testing.T) {
	archives(t, "answer", func(t *testing.T, in map[string][]byte) []txtar.File {
		e := echoOf(t, in["echo"])
		var s Stream
		out, err := stream(&s, e, in["upstream-response"])
		ended := grammar(t, out)
		for _, bad := range []string{"SECRET", "served"} {
			if bytes.Contains(out, []byte(bad)) {
				t.Errorf("the client is shown %q", bad)
			}
		}
		whole, wholeErr := wholeOf(e, in["upstream-response"])
		if (err == nil) != (wholeErr == nil) && !streamAlone(err) || (err == nil) != ended {
			t.Errorf("the stream ends with %v, the whole answer with %v", err, wholeErr)
		}
		var files []txtar.File
		if err != nil {
			files = append(files, section("error", err.Error()))
		}
		files = append(files, section("response", string(out)))
		if wholeErr != nil {
			return files
		}
		if !json.Valid(whole) {
			t.Errorf("the whole answer is not JSON: %s", whole)
		}
		if diff := cmp.Diff(normal(t, whole), normal(t, collect(t, out))); diff != "" && err == nil {
			t.Errorf("whole and streamed answers differ: -whole +streamed\n%s", diff)
		}
		return append(files, section("whole", string(whole)))
	})
}
