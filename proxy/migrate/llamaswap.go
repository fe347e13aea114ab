package migrate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
)

// swapDifferences are the reasons why a setting of llama-swap's is not in the file.
var swapDifferences = map[string]string{
	"ttl":                "engines are not stopped when they are idle; upstreams[].wake wakes one that sleeps",
	"globalTTL":          "engines are not stopped when they are idle; upstreams[].wake wakes one that sleeps",
	"groups":             "engines are not swapped: one that loads models on demand (Ollama, llama-server as a router) does, see upstreams[].residents",
	"matrix":             "engines are not swapped: one that loads models on demand (Ollama, llama-server as a router) does, see upstreams[].residents",
	"hooks":              "engines are started by other programs",
	"cmdStop":            "engines are stopped by other programs",
	"env":                "it belongs to what starts the engine",
	"filters":            "parameters are the client's; a profile of your own (engines) refuses some",
	"unlisted":           "the model is listed; keys[].models says who may ask for it",
	"healthCheckTimeout": "calls wait in the model's queue while an engine starts (models[].queue, upstreams[].wake)",
	"checkEndpoint":      "engines are probed as their kind wants it; upstreams[].probe.path is another path",
	"sendLoadingState":   "clients that wait are sent keep-alives (stream.keepalive)",
}

var macroName = regexp.MustCompile(`\$\{[a-zA-Z0-9_-]+\}`)

// swap is the state of reading a file of llama-swap's.
type swap struct {
	plan   *plan
	macros map[string]string
	ports  map[string]int // of models
}

// llamaSwap reads the configuration of llama-swap.
func (p *plan) llamaSwap(file *section) {
	s := swap{plan: p, macros: map[string]string{}}
	readMacros(file.under("macros"), s.macros)
	models := file.under("models")
	s.assignPorts(models, cmp.Or(file.whole("startPort"), 5800))
	models.entries(func(id string, v any) {
		s.model(id, newSection("models."+id, v))
	})
	if len(models.items) > 0 {
		p.note("models are not started: each has an upstream of its own, whose engine has to run. What started it stands above it")
	}
	file.under("peers").entries(func(name string, v any) {
		s.peer(name, newSection("peers."+name, v))
	})
	for i, name := range file.names("apiKeys") {
		variable := environmentMacro(name)
		p.clientKey(fmt.Sprintf("apiKeys[%d]", i), fmt.Sprintf("client-%d", i+1), name, variable)
	}
	if level := file.text("logLevel"); slices.Contains([]string{"debug", "warn", "error"}, level) {
		p.logLevel = level
	}
	file.ignore("startPort", "logTimeFormat", "logToStdout", "metricsMaxInMemory", "captureBuffer", "includeAliasesInList")
	file.rest(p, swapDifferences)
}

func readMacros(s *section, into map[string]string) {
	s.entries(func(name string, v any) { into[name] = scalar(v) })
}

// assignPorts gives a port to each model that uses the macro, in the order of their names.
func (s *swap) assignPorts(models *section, next int) {
	s.ports = map[string]int{}
	var using []string
	models.entries(func(id string, v any) {
		m := newSection("", v)
		own := s.withMacros(m.under("macros"), id)
		text := expand(m.text("cmd")+" "+cmp.Or(m.text("proxy"), "http://localhost:${PORT}"), own)
		if strings.Contains(text, "${PORT}") {
			using = append(using, id)
		}
	})
	slices.Sort(using)
	for i, id := range using {
		s.ports[id] = next + i
	}
}

// withMacros are the macros of a model.
func (s *swap) withMacros(of *section, id string) map[string]string {
	own := map[string]string{"MODEL_ID": id}
	for name, value := range s.macros {
		own[name] = value
	}
	readMacros(of, own)
	if port := s.ports[id]; port != 0 {
		own["PORT"] = strconv.Itoa(port)
	}
	return own
}

// expand replaces macros, which may name others.
func expand(text string, macros map[string]string) string {
	const deepest, longest = 16, 1 << 16
	for range deepest {
		next := macroName.ReplaceAllStringFunc(text, func(m string) string {
			if value, known := macros[m[2:len(m)-1]]; known {
				return value
			}
			return m
		})
		if next == text || len(next) > longest {
			break
		}
		text = next
	}
	return text
}

// environment is a variable's macro, in a text that is kept from meaning ours.
var environment = regexp.MustCompile(`\$\$\{env\.([a-zA-Z_][a-zA-Z0-9_]*)\}`)

// environmentMacro returns the variable that a text consists of, empty if it is another text.
func environmentMacro(text string) string {
	if found := environment.FindStringSubmatch(literal(text)); found != nil && found[0] == literal(text) {
		return found[1]
	}
	return ""
}

// engineKeyOf is the key of an engine as our file has it.
func (s *swap) engineKeyOf(text string) string {
	return environment.ReplaceAllStringFunc(literal(text), func(m string) string {
		return s.plan.variable(environment.FindStringSubmatch(m)[1])
	})
}

// model reads a model, which has an engine of its own.
func (s *swap) model(id string, m *section) {
	macros := s.withMacros(m.under("macros"), id)
	words, lines := command(expand(m.text("cmd"), macros))
	u := upstream{url: expand(cmp.Or(m.text("proxy"), "http://localhost:${PORT}"), macros), command: lines}
	u.engine = engineOf(words)
	apiKey, _, _ := strings.Cut(flagValue(words, "--api-key"), ",") // one of several is enough
	u.apiKey = s.engineKeyOf(apiKey)
	u.concurrency = min(m.whole("concurrencyLimit"), most)
	if name := environmentMacro(u.url); name != "" {
		u.url = "os.environ/" + name
	}
	if !config.CanBeModelID(id) {
		s.plan.note("%s: clients cannot name such a model, so it is left out", m.path)
		return
	}
	if !s.plan.address(&u, m.path, "") {
		return
	}
	u.name = slug(id)
	known := s.plan.modelNamed(id)
	known.kind, known.guessed = kindOf(words, id)
	known.name = m.text("name")
	known.slots = u.concurrency
	served := cmp.Or(expand(m.text("useModelName"), macros), id)
	known.deployments = []deployment{{upstream: s.plan.upstream(u), served: served}}
	for _, alias := range m.list("aliases") {
		name := cmp.Or(scalar(alias), newSection("", alias).text("id"))
		if config.CanBeAlias(name) {
			known.aliases = append(known.aliases, name)
		}
	}
	clocks := m.under("timeouts")
	known.timeouts.connect = clocks.number("connect")
	known.timeouts.firstEvent = clocks.number("responseHeader")
	clocks.ignore("keepalive", "tlsHandshake", "idleConn", "expectContinue")
	clocks.rest(s.plan, swapDifferences)
	if n := m.take("ttl"); scalar(n) != "" && scalar(n) != "0" && scalar(n) != "-1" {
		delete(m.taken, "ttl")
	}
	m.ignore("description", "metadata")
	m.rest(s.plan, swapDifferences)
}

// peer reads another server, with the models that it serves.
func (s *swap) peer(name string, peer *section) {
	u := upstream{url: expand(peer.text("proxy"), s.macros), apiKey: s.engineKeyOf(expand(peer.text("apiKey"), s.macros))}
	if name := environmentMacro(u.url); name != "" {
		u.url = "os.environ/" + name
	}
	u.external = hosted(u.url)
	if !s.plan.address(&u, peer.path, "") {
		return
	}
	u.name = cmp.Or(slug(name), u.name)
	at := s.plan.upstream(u)
	for _, id := range peer.names("models") {
		if !config.CanBeModelID(id) {
			s.plan.note("%s.models: clients cannot name one of them, so it is left out", peer.path)
			continue
		}
		if s.plan.find(id) != nil {
			s.plan.note("%s.models: %s is served by another entry already", peer.path, id)
			continue
		}
		m := s.plan.modelNamed(id)
		m.kind, m.guessed = guessKind(id)
		m.deployments = []deployment{{upstream: at, served: id}}
	}
	if !u.external {
		s.plan.note("%s: if it is another house's, mark it with external: true, and the keys that may go there with tiers", peer.path)
	}
	peer.rest(s.plan, swapDifferences)
}

// command splits a command into words, and into lines for a comment, in which no key stands.
func command(text string) (words, lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "\\"))
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words = append(words, strings.Fields(line)...)
		lines = append(lines, keyFlag.ReplaceAllString(line, "$1 ..."))
	}
	return words, lines
}

// keyFlag is a secret on a command line, as a flag or as a variable. It may be quoted.
var keyFlag = regexp.MustCompile(`(?i)([\w-]*(?:key|token|secret|password))[= ]+("[^"]*"|'[^']*'|\S+)`)

// flagValue returns the value of a flag.
func flagValue(words []string, flag string) string {
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, flag+"="); ok {
			return strings.Trim(value, `"'`)
		}
		if word == flag && i+1 < len(words) {
			return strings.Trim(words[i+1], `"'`)
		}
	}
	return ""
}

// engineOf says by a command which engine it starts; empty: the edge asks it.
func engineOf(words []string) string {
	all := strings.ToLower(strings.Join(words, " "))
	for _, e := range []struct{ part, engine string }{
		{"llama-server", "llamacpp"},
		{"llama.cpp:server", "llamacpp"},
		{"whisper-server", "whisper"},
		{"vllm serve", "vllm"},
		{"vllm/vllm-openai", "vllm"},
		{"vllm.entrypoints", "vllm"},
		{"sglang", "sglang"},
		{"text-generation-launcher", "tgi"},
		{"kokoro", "kokoro"},
		{"speaches", "speaches"},
	} {
		if strings.Contains(all, e.part) {
			return e.engine
		}
	}
	return ""
}

// kindOf says what a model is for, by the command that starts its engine, else by its name.
func kindOf(words []string, id string) (kind string, guessed bool) {
	for _, word := range words {
		switch word {
		case "--embedding", "--embeddings":
			return config.KindEmbedding, false
		case "--rerank", "--reranking":
			return config.KindRerank, false
		}
	}
	switch engineOf(words) {
	case "whisper":
		return config.KindTranscription, false
	case "kokoro":
		return config.KindSpeech, false
	}
	return guessKind(id)
}
