package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/golden"
)

// secretKey must not appear in any file or in the output of the command.
const secretKey = "pstk_a_key_that_nobody_may_see"

const twoModels = `{"object":"list","data":[
 {"id":"tts","kind":"audio-speech","supported_endpoints":["/v1/audio/speech"],"is_ready":true},
 {"id":"no-tools","kind":"chat","supported_features":["json"],"supported_endpoints":["/v1/messages"],"is_ready":true},
 {"id":"qwen/it's <1>","name":"Qwen \"3\"","kind":"chat","supported_endpoints":["/v1/chat/completions","/v1/messages","/v1/responses"],
  "input_modalities":["text","image"],"context_length":65536,"max_output_length":8192,"is_ready":true,"model_info":{"supported_reasoning_efforts":["none","low"]}},
 {"id":"small","name":"small","kind":"chat","supported_features":["tools"],"supported_endpoints":["/v1/chat/completions","/v1/messages","/v1/responses"],
  "input_modalities":["text"],"context_length":16384,"is_ready":false},
 {"id":"unknown","name":"unknown","kind":"chat","supported_endpoints":["/v1/chat/completions","/v1/messages","/v1/responses"],"input_modalities":["text"],"is_ready":true}
],"models":[{"slug":"qwen/it's <1>","context_window":65536}]}`

// edge starts a fake edge that requires the key, and returns its address.
func edge(t *testing.T, list string) string {
	t.Helper()
	return edgeWithUpgrade(t, list, http.StatusUpgradeRequired)
}

// edgeWithUpgrade starts an edge that responds to WebSocket upgrades with the given status.
func edgeWithUpgrade(t *testing.T, list string, upgrade int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		alias := strings.HasPrefix(r.URL.Path, "/v1/models/")
		switch {
		case r.Method == "GET" && r.URL.Path == "/v1/responses" && r.Header.Get("Upgrade") == "websocket" && r.Header.Get("Authorization") == "Bearer "+secretKey:
			w.WriteHeader(upgrade)
		case r.Method != "GET" || !alias && (r.URL.Path != "/v1/models" || !r.URL.Query().Has("client_version")):
			t.Errorf("the command asks for %s %s", r.Method, r.URL)
		case r.Header.Get("Authorization") != "Bearer "+secretKey:
			w.WriteHeader(http.StatusUnauthorized)
		case alias && r.URL.Path == "/v1/models/claude-it's/1":
			fmt.Fprint(w, `{"id":"small","name":"small","kind":"chat","supported_endpoints":["/v1/messages","/v1/responses"],"context_length":16384,"is_ready":true}`)
		case alias:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprint(w, list)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func run(t *testing.T, o Options, env map[string]string) (out, notes string, err error) {
	t.Helper()
	var written, said bytes.Buffer
	o.Out, o.Notes, o.KeyEnv = &written, &said, "EDGE_KEY"
	o.Getenv = func(name string) string { return env[name] }
	o.Now = time.Date(2026, 11, 22, 18, 0, 0, 0, time.UTC)
	err = ConfigureAgent(t.Context(), &o)
	if all := written.String() + said.String() + fmt.Sprint(err); strings.Contains(all, secretKey) {
		t.Errorf("the key is told: %s", all)
	}
	return written.String(), said.String(), err
}

// TestWebSocket checks that only Codex uses WebSocket, and only if the edge serves it.
func TestWebSocket(t *testing.T) {
	for status, on := range map[int]bool{101: true, 426: false, 405: false, 403: false, 200: false} {
		url := edgeWithUpgrade(t, twoModels, status)
		for _, name := range AgentNames() {
			out, _, err := run(t, Options{Name: name, URL: url, Home: "/home/u"}, map[string]string{"EDGE_KEY": secretKey})
			want := on && name == "codex"
			if err != nil || strings.Contains(out, "wire_api = \"responses\"\nsupports_websockets = true\n") != want || strings.Contains(out, "websockets") != want {
				t.Errorf("edge answers %d: %s: %v, want WebSocket: %v\n%s", status, name, err, want, out)
			}
		}
	}
}

func TestFilesOfEachAgent(t *testing.T) {
	url := edge(t, twoModels)
	for _, name := range AgentNames() {
		for _, model := range []string{"", "small", "unknown"} {
			t.Run(name+"_"+model, func(t *testing.T) {
				out, notes, err := run(t, Options{Name: name, URL: url + "/v1/", Model: model, Home: "/home/u"}, map[string]string{"EDGE_KEY": secretKey})
				if err != nil {
					t.Fatal(err)
				}
				text := strings.ReplaceAll(out+"-- notes --\n"+notes, url, "http://edge:4000")
				golden.CompareFile(t, filepath.Join("testdata", strings.Trim(name+"-"+model, "-")+".txt"), []byte(text))
			})
		}
	}
}

// TestAlias checks an agent that is configured with an alias. The agent must request the alias,
// which the edge resolves. The files must contain the model's properties. Codex must request the id
// instead.
func TestAlias(t *testing.T) {
	url := edge(t, twoModels)
	const alias = "claude-it's/1"
	for name, want := range map[string]string{
		"claude":   `"ANTHROPIC_MODEL": "claude-it's/1",`,
		"opencode": `"model": "penstock/claude-it's/1",`,
		"codex":    `model = "small"`,
	} {
		out, notes, err := run(t, Options{Name: name, URL: url, Model: alias, Home: "/home/u"}, map[string]string{"EDGE_KEY": secretKey})
		if err != nil || !strings.Contains(out, want) || strings.Contains(notes, "an alias: Codex gets the id, small,") != (name == "codex") {
			t.Errorf("%s: %v, want %s\n%s%s", name, err, want, out, notes)
		}
		if !strings.Contains(notes, "the context of claude-it's/1 is 16384 tokens") {
			t.Errorf("%s: notes = %s, want the context of the alias", name, notes)
		}
	}
}

// TestReadyFirst checks that a ready model is chosen unless a model is named. If no model is ready,
// the output must say so.
func TestReadyFirst(t *testing.T) {
	const entry = `{"id":%q,"kind":"chat","supported_endpoints":["/v1/messages"],"context_length":65536,"is_ready":%t}`
	for ready, want := range map[string][2]string{
		"":  {"a", "model a, the first of 3, none of them ready: --model takes another"},
		"b": {"b", "model b, the first ready one of 3: --model takes another"},
	} {
		var list []string
		for _, id := range []string{"a", "b", "c"} {
			list = append(list, fmt.Sprintf(entry, id, ready != "" && id >= ready))
		}
		url := edge(t, `{"data":[`+strings.Join(list, ",")+`],"models":[]}`)
		out, notes, err := run(t, Options{Name: "claude", URL: url, Home: "/home/u"}, map[string]string{"EDGE_KEY": secretKey})
		if err != nil || !strings.Contains(out, `"ANTHROPIC_MODEL": "`+want[0]+`"`) || !strings.Contains(notes, want[1]) {
			t.Errorf("%v, want model and note %v\n%s%s", err, want, out, notes)
		}
	}
}

func TestKeyInPlaceOfItsName(t *testing.T) {
	environment := []string{"HOME=/home/u", "MINE=hf_abcdefgh", "NAME_OF_KEY=EDGE_KEY", "EDGE_KEY=" + secretKey, "EMPTY="}
	for word, want := range map[string]bool{
		"PENSTOCK_API_KEY": true, "EDGE_KEY": true, "_k1": true, "NOT_SET": true,
		"": false, "1K": false, "sk-abc": false, "A B": false,
		"hf_abcdefgh": false, secretKey: false, "pstk_another": false, strings.Repeat("a", 41): false,
	} {
		if got := IsVariableName(word, environment); got != want {
			t.Errorf("IsVariableName(%q) = %v, want %v", word, got, want)
		}
	}
}

// TestFoldersMoveWithTheirVariables checks that, if the agent's environment variable names a
// folder, the files are written to that folder.
func TestFoldersMoveWithTheirVariables(t *testing.T) {
	url := edge(t, twoModels)
	for name, want := range map[string]string{
		"claude": "/moved/penstock.json", "codex": "/moved/penstock.config.toml", "opencode": "/moved/opencode/penstock.json", "copilot": "/moved/penstock.env",
	} {
		env := map[string]string{"EDGE_KEY": secretKey, agentPrograms[name].folderEnv: "/moved"}
		if out, _, err := run(t, Options{Name: name, URL: url, Home: "/home/u"}, env); err != nil || !strings.HasPrefix(out, "# "+want+"\n") {
			t.Errorf("%s: %.80s, %v; want it to begin with # %s", name, out, err, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	url := edge(t, twoModels)
	with := map[string]string{"EDGE_KEY": secretKey}
	older := edge(t, `{"object":"list","data":[]}`)
	empty := edge(t, `{"object":"list","data":[],"models":[]}`)
	for _, c := range []struct {
		o    Options
		env  map[string]string
		want string
	}{
		{Options{Name: "emacs", URL: url}, with, "claude, codex"},
		{Options{Name: "codex", URL: url, Model: "smal"}, with, `did you mean "small"?`},
		{Options{Name: "codex", URL: url, Model: "tts"}, with, "no model"},
		{Options{Name: "claude", URL: url, Model: "no-tools"}, with, "no model"},
		{Options{Name: "codex", URL: url}, nil, "asks for a key"},
		{Options{Name: "codex", URL: url}, map[string]string{"EDGE_KEY": "wrong"}, "refuses the key"},
		{Options{Name: "codex", URL: older}, with, "older version"},
		{Options{Name: "codex", URL: empty}, with, "no chat model"},
		{Options{Name: "codex", URL: "http://127.0.0.1:1"}, with, "--url"},
		{Options{Name: "codex", URL: "http://u:p@h"}, with, "--url"},
		{Options{Name: "codex", URL: "::"}, with, "--url"},
	} {
		if out, _, err := run(t, c.o, c.env); err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("%+v: %v, %q; want an error with %q", c.o, err, out, c.want)
		}
	}
}

// TestWrite checks that written files are readable only by their owner, that an identical file is
// not changed, and that a symbolic link is preserved. If an existing file differs, the command must
// show the differences, and save the existing file under another name.
func TestWrite(t *testing.T) {
	url, home := edge(t, twoModels), t.TempDir()
	env := map[string]string{"EDGE_KEY": secretKey}
	write := func(model string) string {
		t.Helper()
		out, _, err := run(t, Options{Name: "codex", URL: url, Model: model, Home: home, Write: true}, env)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	profile := filepath.Join(home, ".codex", "penstock.config.toml")
	list := func() string {
		names, err := filepath.Glob(filepath.Join(home, ".codex", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range names {
			names[i] = filepath.Base(n)
		}
		return strings.Join(names, " ")
	}
	if out := write("small"); !strings.Contains(out, "--- /dev/null\n+++ "+profile+"\n+model = \"small\"\n") {
		t.Errorf("the first time:\n%s", out)
	}
	info, err := os.Stat(profile)
	if err != nil || info.Mode().Perm() != 0o600 || list() != "penstock-models.json penstock.config.toml" {
		t.Errorf("profile: mode %v, %v, files %s; want mode 0600 and two files", info.Mode(), err, list())
	}
	var models struct{ Models []struct{ Slug string } }
	text, _ := os.ReadFile(filepath.Join(home, ".codex", "penstock-models.json"))
	if err := json.Unmarshal(text, &models); err != nil || len(models.Models) != 1 || models.Models[0].Slug != "qwen/it's <1>" {
		t.Errorf("Codex's catalog: %s, %v", text, err)
	}
	if out := write("small"); strings.Contains(out, "+++") || strings.Count(out, "as it should be") != 2 {
		t.Errorf("written again: want two files as they should be\n%s", out)
	}
	target := filepath.Join(home, "elsewhere.toml")
	if err := os.Rename(profile, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, profile); err != nil {
		t.Fatal(err)
	}
	out := write("unknown")
	if want := "\n-model = \"small\"\n+model = \"unknown\"\n"; !strings.Contains(out, want) || strings.Contains(out, "model_provider") {
		t.Errorf("another model:\n%s", out)
	}
	kept, err := os.ReadFile(profile + ".20261122-180000")
	if err != nil || !strings.Contains(string(kept), `"small"`) {
		t.Errorf("the old one: %s, %v", kept, err)
	}
	write("small") // runs within the same second
	write("unknown")
	for name, want := range map[string]string{"": "small", "-2": "unknown", "-3": "small"} {
		if kept, err := os.ReadFile(profile + ".20261122-180000" + name); err != nil || !strings.HasPrefix(string(kept), `model = "`+want+`"`) {
			t.Errorf("kept as %q: %s, %v", name, kept, err)
		}
	}
	if info, err := os.Lstat(profile); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), `"unknown"`) {
		t.Errorf("behind the link: %s, %v", text, err)
	}
	_ = filepath.WalkDir(home, func(path string, d os.DirEntry, _ error) error {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), secretKey) {
			t.Errorf("%s has the key", path)
		}
		return nil
	})
}

// TestWriteKeepsFolder checks that a folder in place of a file is not replaced.
func TestWriteKeepsFolder(t *testing.T) {
	checkWriteRejects(t, func(path string) error { return os.Mkdir(path, 0o700) })
}

// checkWriteRejects checks that --write rejects a path that is not a regular file, and leaves
// whatever is there unchanged.
func checkWriteRejects(t *testing.T, place func(path string) error) {
	t.Helper()
	url, home := edge(t, twoModels), t.TempDir()
	path := filepath.Join(home, ".codex", "penstock.config.toml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := place(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, Options{Name: "codex", URL: url, Home: home, Write: true}, map[string]string{"EDGE_KEY": secretKey})
	if err == nil || !strings.Contains(err.Error(), path+" is no regular file") || out != "" {
		t.Errorf("%v, %q; want an error about %s", err, out, path)
	}
	if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("it is %v, %v; want it unchanged", after, err)
	}
}

// TestJSON checks that the files are printed as one JSON object without other output in between.
func TestJSON(t *testing.T) {
	url := edgeWithUpgrade(t, twoModels, 405)
	for _, name := range AgentNames() {
		out, _, err := run(t, Options{Name: name, URL: url, Home: "/home/u", JSON: true}, map[string]string{"EDGE_KEY": secretKey})
		var got struct {
			Model, Run string
			Files      []settingsFile
		}
		if json.Unmarshal([]byte(out), &got) != nil || err != nil || got.Model == "" || got.Run == "" || len(got.Files) == 0 || got.Files[0].Path == "" {
			t.Errorf("%s: %v, want JSON with a model, a command and files\n%s", name, err, out)
		}
	}
}
