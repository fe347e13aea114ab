package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite what the simulator and the recordings differ in")

// TestRecorded checks that the simulator responds like the real engines. It sends requests that
// were recorded with a real engine to a simulator of that engine, and compares the responses. It
// compares the status, the header lines, the Content-Type, and the form of the body (its members,
// their types, and the order of events). testdata/README.md documents the sources of the
// recordings.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "recorded", "*", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, file := range files {
		profile, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(profile+"/"+name, func(t *testing.T) {
			t.Parallel()
			ar, err := txtar.ParseFile(file)
			if err != nil || len(ar.Files) < 2 {
				t.Fatal(err, len(ar.Files))
			}
			engine := answerShape(t, ar.Files[1].Data)
			simulated := answerShape(t, replay(t, profile, name, ar.Files[0].Data, ar.Files[1].Data))
			got := differences(engine, simulated)
			if *update {
				ar.Files = ar.Files[:2]
				if got != "" {
					ar.Files = append(ar.Files, txtar.File{Name: "differs", Data: []byte(got)})
				}
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := ""
			if len(ar.Files) > 2 {
				want = string(ar.Files[2].Data)
			}
			if got != want {
				t.Errorf("the simulator's answer differs from the engine's in\n%s\nknown was\n%s", got, want)
			}
		})
	}
}

// recordedAs contains, for each recorded engine, the options with which the simulator imitates it.
var recordedAs = map[string]Options{
	"llamacpp":        {Models: []string{"markov"}, MaxModelLen: 2048, Slots: 4},
	"llamacpp-router": {Models: []string{"alpha", "beta"}, MaxModelLen: 2048, Slots: 4},
	"ollama":          {Models: []string{"markov-slow:latest", "markov:latest"}, MaxModelLen: 2048},
	"whisper-openai":  {},
}

// replay sends a recorded request and returns the response in the format of the recordings.
func replay(t *testing.T, profile, name string, request, answer []byte) []byte {
	t.Helper()
	o := recordedAs[profile]
	o.Profile = profile
	if strings.HasPrefix(name, "auth-") {
		o.APIKey = "secret"
	}
	thoughts := bytes.Contains(answer, []byte(`reasoning`)) || bytes.Contains(answer, []byte(`"thinking`)) || bytes.Contains(answer, []byte(`summary_text`))
	if name == "embeddings" {
		o.Models = []string{"embed"}
	}
	e := start(t, o)
	for _, n := range []string{"beta", "alpha"} { // models loaded during the recording
		if profile == "llamacpp-router" && (name == "models" && n == "beta" || n == "alpha" && slices.Contains([]string{"load-again", "unload", "metrics-model", "slots-model"}, name)) {
			e.loaded.Load(n)
		}
	}
	head, body, _ := strings.Cut(string(request), "\n\n")
	body = strings.TrimSuffix(body, "\n")
	if strings.Contains(head, "multipart/form-data") {
		body = strings.ReplaceAll(body+"\n", "\n", "\r\n")
		body = strings.Replace(body, "<a sound file>", string(twelveSeconds()), 1)
	}
	line, _, _ := strings.Cut(head, "\n")
	if thoughts { // the recorded model decides whether to think
		head += "\nX-Sim-Reasoning: 3"
	}
	if !strings.HasPrefix(line, "GET ") && !strings.HasPrefix(line, "HEAD ") {
		head += fmt.Sprintf("\nContent-Length: %d", len(body))
	}
	c := dial(t, e)
	if _, err := c.Write([]byte(strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(line, " ")
	raw := new(bytes.Buffer)
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(c.r, raw)), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	rawHead, _, _ := strings.Cut(raw.String(), "\r\n\r\n")
	var got bytes.Buffer
	got.WriteString(strings.ReplaceAll(rawHead, "\r\n", "\n") + "\n\n")
	if _, err := got.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return got.Bytes()
}

// answerShape returns the form of a response as a map from property names to values.
func answerShape(t *testing.T, answer []byte) map[string]string {
	t.Helper()
	head, body, _ := strings.Cut(string(answer), "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	s := map[string]string{"status": strings.Join(strings.Fields(lines[0])[1:2], "")}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ":")
		switch name {
		case "Date", "Content-Length", "Process-Start-Time-Unix":
			value = "(any)"
		}
		s["header "+name] = strings.TrimSpace(value)
	}
	body = strings.TrimSpace(body)
	switch {
	case body == "":
		s["body"] = "empty"
	case strings.HasPrefix(body, "data:"), strings.HasPrefix(body, "event:"):
		s["body"] = "events"
		eventShapes(t, s, body)
	case strings.HasPrefix(body, "{"), strings.HasPrefix(body, "["):
		s["body"] = "JSON"
		valueShape(t, s, "", []byte(body))
	case strings.HasPrefix(body, "# HELP"):
		s["body"] = "metrics"
		for l := range strings.SplitSeq(body, "\n") {
			if f := strings.Fields(l); len(f) == 4 && f[1] == "TYPE" {
				s["metric "+f[2]] = f[3]
			}
		}
	case strings.HasPrefix(body, "<"):
		s["body"] = "HTML"
	case strings.Contains(body, " --> "):
		s["body"] = "subtitles"
	case s["status"] == "200" && s["header Content-Type"] != "text/plain; charset=utf-8":
		s["body"] = "words"
	default:
		s["body"] = body
	}
	return s
}

// eventShapes lists the events in a stream: the order of names or kinds, and the members of each
// kind.
func eventShapes(t *testing.T, s map[string]string, body string) {
	t.Helper()
	var order []string
	for block := range strings.SplitSeq(body, "\n\n") {
		name, data := "", ""
		for l := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(l, "event: "); ok {
				name = v
			} else if v, ok := strings.CutPrefix(l, "data: "); ok {
				data = v
			}
		}
		kind := name
		if kind == "" {
			kind = chunkKind(data)
		}
		if n := len(order); n == 0 || order[n-1] != kind {
			order = append(order, kind)
		}
		if strings.HasPrefix(data, "{") {
			valueShape(t, s, kind+" ", []byte(data))
		}
	}
	s["order"] = strings.Join(order, ", ")
}

// chunkKind returns the kind of an event that has no name, based on its data.
func chunkKind(data string) string {
	var c struct {
		Choices []struct {
			Text  *string
			Delta map[string]json.RawMessage
			Done  *string `json:"finish_reason"`
		}
		Error json.RawMessage
	}
	if json.Unmarshal([]byte(data), &c) != nil {
		return data
	}
	switch {
	case c.Error != nil:
		return "error"
	case len(c.Choices) == 0:
		return "usage"
	case c.Choices[0].Done != nil:
		return "finish"
	case c.Choices[0].Text != nil:
		return "text"
	}
	var members []string
	for _, m := range slices.Sorted(maps.Keys(c.Choices[0].Delta)) {
		if v := string(c.Choices[0].Delta[m]); v == `""` || v == "null" {
			m += "=" + v
		}
		members = append(members, m)
	}
	return "delta(" + strings.Join(members, " ") + ")"
}

// valueShape adds the members of a JSON value, and their types, to s.
func valueShape(t *testing.T, s map[string]string, prefix string, raw []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("recorded %s: %v, want JSON", raw, err)
	}
	var walk func(path string, v any)
	add := func(path, kind string) {
		if was := s[path]; was != "" && !slices.Contains(strings.Split(was, "|"), kind) {
			kinds := append(strings.Split(was, "|"), kind)
			slices.Sort(kinds)
			kind = strings.Join(kinds, "|")
		} else if was != "" {
			kind = was
		}
		s[path] = kind
	}
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
			add(path, "null")
		case bool:
			add(path, "boolean")
		case float64:
			add(path, "number")
		case string:
			add(path, "string")
		case []any:
			add(path, "array")
			for _, one := range v {
				walk(path+"[]", one)
			}
		case map[string]any:
			add(path, "object")
			for name, one := range v {
				// the member names of this object are languages
				if strings.HasSuffix(path, "language_probabilities") {
					name = "*"
				}
				walk(path+"."+name, one)
			}
		}
	}
	walk(prefix, v)
}

// differences lists the differences between two forms.
func differences(engine, simulated map[string]string) string {
	var out []string
	for name, want := range engine {
		switch got, ok := simulated[name]; {
		case !ok:
			out = append(out, "- "+name)
		case got != want:
			out = append(out, fmt.Sprintf("~ %s: %s, simulated %s", name, want, got))
		}
	}
	for name := range simulated {
		if _, ok := engine[name]; !ok {
			out = append(out, "+ "+name)
		}
	}
	// the contents of a missing member are not listed separately
	out = slices.DeleteFunc(out, func(d string) bool {
		return slices.ContainsFunc(out, func(of string) bool {
			return d[0] != '~' && d[0] == of[0] && len(d) > len(of) && strings.HasPrefix(d, of) && strings.ContainsAny(d[len(of):][:1], ".[") || d[0] == of[0] && strings.HasSuffix(of, ") ") && d != of && strings.HasPrefix(d, of)
		})
	})
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(a[2:]+a[:1], b[2:]+b[:1]) })
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "\n") + "\n"
}
