package e2e

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/openapi"
	"penstock/translate/chat/answer"
)

// TestOpenapiCommand checks that the program prints the document that the edge serves.
func TestOpenapiCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []byte
	}{
		{nil, openapi.YAML()}, {[]string{"--format", "yaml"}, openapi.YAML()}, {[]string{"--format", "json"}, openapi.JSON()},
	} {
		out, err := exec.Command(rig.ProgramPath(t), append([]string{"openapi"}, c.args...)...).Output()
		if err != nil || !bytes.Equal(out, c.want) {
			t.Errorf("penstock openapi %v: %v, %.100q", c.args, err, out)
		}
	}
	if err := exec.Command(rig.ProgramPath(t), "openapi", "--format", "xml").Run(); err == nil {
		t.Error("an unknown format is accepted")
	}
}

// TestGolden validates the requests from clients and the answers to clients in the translators'
// golden files.
func TestGolden(t *testing.T) {
	t.Parallel()
	c := rig.PublishedContract(t)
	seen := map[string]int{}
	check := func(file, section, name, text string) {
		seen[file[:strings.IndexByte(file, '/')]+" "+name]++
		if err := c.Validate(rig.SchemaPointer(name), []byte(text)); err != nil && !slices.Contains(foreignGoldenFiles, file) {
			t.Errorf("%s, section %s does not fit the schema: %v\n%.500s", file, section, err, text)
		}
	}
	root := filepath.Join("..", "..", "translate")
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".txtar" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		sections := map[string]string{}
		for _, f := range txtar.Parse(text).Files {
			sections[f.Name] = string(f.Data)
		}
		for _, name := range answerSections {
			text := sections[name]
			if name == "assembled" {
				text = clientResponse(text)
			}
			checkAnswer(file, text, func(schema, text string) { check(file, name, schema, text) })
		}
		for _, r := range goldenRequests {
			if strings.HasPrefix(file, r.folder) && sections[r.accepted] != "" {
				check(file, r.section, r.schema, sections[r.section])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range goldenKinds {
		if seen[want] == 0 {
			t.Errorf("nothing of the kind %q was found among %v: has a section been renamed?", want, seen)
		}
	}
}

// clientResponse returns the client's response for a completion assembled from a stream.
func clientResponse(completion string) string {
	var c answer.ChatCompletion
	if c.Parse([]byte(completion)) != nil {
		return completion
	}
	return string(c.Append(nil, &answer.WriteOptions{Model: "public"}))
}

// answerSections are the golden file sections with answers to clients.
var answerSections = []string{"client", "assembled", "response", "whole", "stream", "response.json"}

// goldenRequests lists the golden file sections with clients' bodies. The edge accepts a body if
// the file contains a result for it.
var goldenRequests = []struct{ folder, section, accepted, schema string }{
	// Some bodies lack max_tokens.
	{"messages/testdata/request/", "request", "upstream-request", "CountTokensRequest"},
	{"responses/testdata/request/", "request.json", "chat.json", "ResponsesRequest"},
}

// TestGolden must find all goldenKinds. Otherwise, it could pass without finding any.
var goldenKinds = []string{
	"chat ChatCompletion", "chat ChatCompletionEvent",
	"messages CountTokensRequest", "messages Message", "messages MessageEvent",
	"responses ResponsesRequest", "responses Response", "responses ResponseEvent", "forward CompletionEvent",
}

// foreignGoldenFiles lists golden files that the published schema does not allow: a chunk in an
// engine-specific form (text in parts), and an effort accepted only by an edge without `strict`.
var foreignGoldenFiles = []string{"chat/answer/testdata/stream/text-parts.txtar", "responses/testdata/request/row-effort-unknown.txtar"}

// eventSchemas maps path prefixes of golden files to the schemas of their events.
var eventSchemas = []struct{ files, schema string }{
	{"chat/", "ChatCompletionEvent"},
	{"messages/", "MessageEvent"},
	{"responses/", "ResponseEvent"},
	{"forward/testdata/completion", "CompletionEvent"},
	{"forward/testdata/", "TranscriptionEvent"},
}

// checkAnswer calls check with each answer in a golden section and its schema. It skips lines that
// mark an error for the test.
func checkAnswer(file, section string, check func(schema, text string)) {
	if !strings.HasPrefix(section, "data:") && !strings.HasPrefix(section, "event:") {
		if name := answerSchema(section); name != "" {
			check(name, section)
		}
		return
	}
	for _, e := range rig.ParseEvents(section) {
		for _, s := range eventSchemas {
			if strings.HasPrefix(file, s.files) && strings.HasPrefix(e.Data, "{") { // skips [DONE]
				check(s.schema, e.Data)
				break
			}
		}
	}
}

// answerSchema determines a body's schema from its object and type members.
func answerSchema(body string) string {
	var v struct{ Object, Type string }
	if json.Unmarshal([]byte(body), &v) != nil {
		return ""
	}
	switch {
	case v.Object == "chat.completion":
		return "ChatCompletion"
	case v.Object == "response":
		return "Response"
	case v.Type == "message":
		return "Message"
	case v.Type == "error":
		return "MessagesError"
	}
	return ""
}
