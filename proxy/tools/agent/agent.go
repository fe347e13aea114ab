package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/plaintext"
)

// Options are the options of the command.
type Options struct {
	Name string // one of AgentNames
	URL  string // base URL of the edge's API
	// id or alias of the model; if empty, the first ready model that the agent can use
	Model  string
	KeyEnv string // environment variable that contains the key
	Write  bool
	// JSON writes one JSON object to Out instead of the text of the files.
	JSON bool

	// Out receives the files, and Notes receives notes about them.
	Out, Notes io.Writer
	Getenv     func(string) string
	Home       string
	Now        time.Time
}

type agentSetup struct {
	// baseURL does not end in /v1. keyVariable is the environment variable that contains the key.
	baseURL, keyVariable string
	models               []model
	codex                []byte
	websocket            bool // whether the edge serves WebSocket; set only for Codex
	folder               string
}

func (s *agentSetup) firstModel() *model { return &s.models[0] }

type settingsFile struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

type agentProgram struct {
	endpoint string
	folder   []string
	// folderEnv is the environment variable with which users can move the agent's folder. subfolder
	// is the path inside that folder.
	folderEnv, subfolder string
	files                func(*agentSetup) []settingsFile
	startCommand         func(*agentSetup) string // returns the command line that starts the agent
}

// AgentNames returns the names of the supported agents.
func AgentNames() []string { return []string{"claude", "codex", "opencode", "copilot"} }

// maxVariableNameBytes is the maximum length of the name of an environment variable. Most keys are
// longer than this.
const maxVariableNameBytes = 40

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariableName reports whether a word can be the name of an environment variable. It returns
// false if the word may be a key. environment has the format of os.Environ.
func IsVariableName(word string, environment []string) bool {
	if !variablePattern.MatchString(word) || len(word) > maxVariableNameBytes || strings.HasPrefix(word, auth.KeyPrefix) {
		return false
	}
	holds := func(v string) bool {
		_, value, _ := strings.Cut(v, "=")
		return value == word
	}
	isSet := func(v string) bool { return strings.HasPrefix(v, word+"=") }
	return !slices.ContainsFunc(environment, holds) || slices.ContainsFunc(environment, isSet)
}

var agentPrograms = map[string]agentProgram{
	"claude": {
		endpoint: "/v1/messages", folder: []string{".claude"}, folderEnv: "CLAUDE_CONFIG_DIR",
		files: claudeFiles, startCommand: func(s *agentSetup) string { return "claude --settings " + quoteShell(s.outputPath("penstock.json")) },
	},
	"codex": {
		endpoint: "/v1/responses", folder: []string{".codex"}, folderEnv: "CODEX_HOME",
		files: codexFiles, startCommand: func(*agentSetup) string { return "codex --profile penstock" },
	},
	"opencode": {
		endpoint: "/v1/messages", folder: []string{".config", "opencode"},
		folderEnv: "XDG_CONFIG_HOME", subfolder: "opencode",
		files: opencodeFiles, startCommand: func(s *agentSetup) string {
			return "OPENCODE_CONFIG=" + quoteShell(s.outputPath("penstock.json")) + " opencode"
		},
	},
	"copilot": {
		endpoint: "/v1/chat/completions", folder: []string{".copilot"}, folderEnv: "COPILOT_HOME",
		files: copilotFiles, startCommand: func(s *agentSetup) string { return "(. " + quoteShell(s.outputPath("penstock.env")) + " && copilot)" },
	},
}

func (s *agentSetup) outputPath(name string) string { return filepath.Join(s.folder, name) }

// firstPromptTokens is the approximate length of an agent's first prompt in tokens.
const firstPromptTokens = 20000

// ConfigureAgent prints or writes the configuration of an agent for a running edge.
func ConfigureAgent(ctx context.Context, o *Options) error {
	p, known := agentPrograms[o.Name]
	if !known {
		return fmt.Errorf("there is no configuration for %q: the agents are %s", o.Name, strings.Join(AgentNames(), ", "))
	}
	base, err := parseBaseURL(o.URL)
	if err != nil {
		return err
	}
	c, err := fetchCatalog(ctx, base, o.Getenv(o.KeyEnv), o.Model)
	if err != nil {
		return err
	}
	s := &agentSetup{baseURL: base, keyVariable: o.KeyEnv, codex: c.codex}
	s.folder = filepath.Join(o.Home, filepath.Join(p.folder...))
	if moved := o.Getenv(p.folderEnv); moved != "" {
		s.folder = filepath.Join(moved, p.subfolder)
	}
	if s.models, err = c.chooseModels(p.endpoint, o.Model); err != nil {
		return err
	}
	s.websocket = o.Name == "codex" && edgeSupportsWebSocket(ctx, base, o.Getenv(o.KeyEnv))
	files := p.files(s)
	shown := o.Out
	if o.JSON {
		shown = io.Discard
	}
	for _, f := range files {
		if o.Write {
			err = f.write(shown, o.Now)
		} else {
			_, err = fmt.Fprintf(shown, "# %s\n%s\n", f.Path, f.Text)
		}
		if err != nil {
			return err
		}
	}
	printSetupNotes(o, s, p.startCommand(s))
	if !o.JSON {
		return nil
	}
	e := json.NewEncoder(o.Out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"model": s.firstModel().ID, "files": files, "run": p.startCommand(s)})
}

func printSetupNotes(o *Options, s *agentSetup, run string) {
	m := s.firstModel()
	id := plaintext.CleanLine(m.ID)
	switch {
	case o.Model != "" || len(s.models) == 1:
	case m.IsReady:
		fmt.Fprintf(o.Notes, "model %s, the first ready one of %d: --model takes another\n", id, len(s.models))
	default:
		fmt.Fprintf(o.Notes, "model %s, the first of %d, none of them ready: --model takes another\n", id, len(s.models))
	}
	if o.Name == "codex" && m.aliasOf != "" {
		fmt.Fprintf(o.Notes, "%s is an alias: Codex gets the id, %s, because its catalog has only ids\n", id, plaintext.CleanLine(m.aliasOf))
	}
	switch {
	case m.ContextLength == 0:
		fmt.Fprintf(o.Notes, "the context of %s is not known, so %s guesses it: "+
			"set context_length in the edge's configuration\n", id, o.Name)
	case m.ContextLength < firstPromptTokens*3/2:
		fmt.Fprintf(o.Notes, "the context of %s is %d tokens, and an agent's first prompt is about %d: "+
			"give the engine 32k or more for each slot\n", id, m.ContextLength, firstPromptTokens)
	}
	if !m.IsReady {
		fmt.Fprintf(o.Notes, "no engine is ready for %s now\n", id)
	}
	if o.Getenv(o.KeyEnv) == "" {
		fmt.Fprintf(o.Notes, "export %s=KEY first: the API key, or any word where the edge asks for none\n", o.KeyEnv)
	}
	if !o.Write {
		fmt.Fprintf(o.Notes, "--write puts the files in place; then:\n")
	}
	fmt.Fprintf(o.Notes, "%s\n", run)
}
