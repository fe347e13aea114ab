package documents

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

// TestShow checks that show blocks can be parsed, if a parser for their language is installed. The
// test log names the languages for which there is none.
func TestShow(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		for _, b := range blocksOf(t, doc) {
			if b.marker != "show" || b.lang == "text" { // text is program output and pictures
				continue
			}
			if why := checkBlock(t, b); why != "" {
				t.Logf("%s:%d: NOT PARSED: %s", b.doc, b.line, why)
			}
		}
	}
}

// checkBlock checks one block. If no check is possible, it returns the reason.
func checkBlock(t *testing.T, b block) (why string) {
	switch b.lang {
	case "bash":
		return runChecker(t, b, "bash", "-n")
	case "python":
		return runChecker(t, b, "python3", "-c", "import ast, sys; ast.parse(open(sys.argv[1]).read())")
	case "toml":
		return runChecker(t, b, "python3", "-c", "import sys, tomllib; tomllib.load(open(sys.argv[1], 'rb'))")
	case "javascript":
		return runChecker(t, b, "node", "--check")
	case "nginx":
		b.text = "events {}\nhttp {\naccess_log off;\n" + b.text + "\n}\n"
		return runChecker(t, b, "nginx", "-t", "-q", "-e", "stderr", "-g", "pid /dev/null;", "-c")
	case "json":
		if !json.Valid([]byte(b.text)) {
			t.Errorf("%s:%d: this is no JSON", b.doc, b.line)
		}
	case "yaml":
		parseYAML(t, b)
	default:
		return "there is no parser for " + b.lang
	}
	return ""
}

// runChecker writes the block to a file and makes a program check it. The file name is the program's last
// argument.
func runChecker(t *testing.T, b block, name string, args ...string) (why string) {
	if _, err := exec.LookPath(name); err != nil {
		return name + " is not installed"
	}
	suffix := map[string]string{"javascript": ".mjs"}[b.lang]
	file := filepath.Join(t.TempDir(), "block"+suffix)
	if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(name, append(args, file)...).CombinedOutput(); err != nil {
		t.Errorf("%s:%d: %s: %v\n%s", b.doc, b.line, name, err, out)
	}
	return ""
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// parseYAML runs "penstock check" on configurations of the edge. Other blocks must be valid YAML.
func parseYAML(t *testing.T, b block) {
	var file map[string]any
	if err := yaml.Unmarshal([]byte(b.text), &file); err != nil {
		t.Errorf("%s:%d: %v", b.doc, b.line, err)
		return
	}
	var schema struct {
		Properties map[string]any
	}
	if err := json.Unmarshal([]byte(read(t, "config/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	for key := range file {
		if schema.Properties[key] == nil {
			return // a file for another program
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"edge", "clients"} {
		selfsigned.WritePair(t, dir, name, time.Now().Add(-time.Hour), time.Now().Add(1000*time.Hour))
	}
	if err := os.WriteFile(filepath.Join(dir, "block.yaml"), []byte(b.text+omittedParts(file)), 0o600); err != nil {
		t.Fatal(err)
	}
	check := rig.Command(t, "check", "block.yaml")
	check.Dir = dir
	for _, m := range variable.FindAllStringSubmatch(b.text, -1) {
		check.Env = append(check.Env, m[1]+"=0123456789abcdef0123456789abcdef")
	}
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s:%d: penstock check: %v\n%s", b.doc, b.line, err, out)
	}
}

// omittedParts returns the parts of a configuration that a block omits: the keys, and the models'
// upstreams.
func omittedParts(file map[string]any) (text string) {
	if file["keys"] == nil && file["issuers"] == nil {
		text += "\nkeys: [{ id: client, hash: \"sha256:" + strings.Repeat("0123456789abcdef", 4) + "\" }]\n"
	}
	if file["upstreams"] != nil {
		return text
	}
	var names []string
	models, _ := file["models"].([]any)
	for _, m := range models {
		deployments, _ := m.(map[string]any)["deployments"].([]any)
		for _, d := range deployments {
			name, _ := d.(map[string]any)["upstream"].(string)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		text += "\nupstreams:\n"
	}
	for _, name := range slices.Compact(names) {
		text += "  - { name: " + name + ", url: \"http://127.0.0.1:8000\" }\n"
	}
	return text
}
