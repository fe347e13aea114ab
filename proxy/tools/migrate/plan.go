package migrate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/plaintext"
)

// LookupEnvFunc looks up a variable as os.LookupEnv does.
type LookupEnvFunc func(name string) (value string, set bool)

type conversionPlan struct {
	env     LookupEnvFunc
	program string

	logLevel    string
	requestBody string
	attempts    int
	timeouts    timeouts
	keys        []clientKey
	upstreams   []*upstream
	models      []*model

	notes     []string
	variables []string
}

// timeouts contains timeouts in seconds. 0 means that a timeout is not set.
type timeouts struct{ connect, firstEvent, answer float64 }

type clientKey struct{ id, hash string }

type upstream struct {
	name        string // may be changed by nameUpstreams
	url         string
	engine      string
	apiKey      string // in the format of our file
	concurrency int
	weight      float64
	external    bool
	command     []string // command that starts the engine, written as a comment
}

type model struct {
	id          string
	kind        string
	guessed     bool // whether kind was guessed from the name
	name        string
	aliases     []string
	deployments []deployment
	fallback    []string
	timeouts    timeouts
	slots       int
	context     int
	maxOutput   int
	tpm         int
	vision      bool
	pricing     [3]string // prices per million tokens: input, output, cached input
}

type deployment struct {
	upstream *upstream
	served   string
	order    float64
	tier     int
}

func (p *conversionPlan) addNote(format string, args ...any) {
	note := plaintext.CleanLine(fmt.Sprintf(format, args...))
	if !slices.Contains(p.notes, note) {
		p.notes = append(p.notes, note)
	}
}

var variableNamePattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// variableReference returns a reference to an environment variable. If the name is invalid, it
// returns "".
func (p *conversionPlan) variableReference(name string) string {
	if !variableNamePattern.MatchString(name) {
		p.addNote("a reference to the environment does not name a variable")
		return ""
	}
	if !slices.Contains(p.variables, name) {
		p.variables = append(p.variables, name)
	}
	return "${" + name + "}"
}

// addClientKey adds the hash of a client key. where is the setting that contains the key. variable
// is the environment variable that contains the key. If variable is empty, plain is the key.
func (p *conversionPlan) addClientKey(where, id, plain, variable string) {
	if variable != "" {
		if plain, _ = p.env(variable); plain == "" {
			p.addNote("%s: the variable %s is not set here, so its key has no hash in this file: penstock key hash makes one", where, variable)
			return
		}
	}
	if auth.IsGuessable(plain) {
		p.addNote("%s: this key is so short that it can be guessed: make clients another one with penstock key new", where)
	}
	hash := auth.HashKey(plain)
	if !slices.ContainsFunc(p.keys, func(k clientKey) bool { return k.hash == hash }) {
		p.keys = append(p.keys, clientKey{id: id, hash: hash})
	}
}

// findOrAddUpstream returns the upstream that has the URL and key of u. If there is none, it adds
// u.
func (p *conversionPlan) findOrAddUpstream(u upstream) *upstream {
	if strings.ContainsFunc(u.apiKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		p.addNote("the engine at %s: its key has characters that no header can carry, so it is left out", u.url)
		u.apiKey = ""
	}
	// This key is plain text, because the other program has no file: references.
	if strings.HasPrefix(u.apiKey, "file:") {
		p.addNote("the engine at %s: its key begins with file:, which would be read as the name of a file here, so it is left out: "+
			"write api_key: ${VARIABLE}", u.url)
		u.apiKey = ""
	}
	for _, known := range p.upstreams {
		if known.url == u.url && known.apiKey == u.apiKey {
			return known
		}
	}
	p.upstreams = append(p.upstreams, &u)
	return &u
}

func (p *conversionPlan) findOrAddModel(id string) *model {
	if m := p.findModel(id); m != nil {
		return m
	}
	m := &model{id: id}
	p.models = append(p.models, m)
	return m
}

func (p *conversionPlan) findModel(id string) *model {
	for _, m := range p.models {
		if m.id == id {
			return m
		}
	}
	return nil
}

// nameUpstreams makes the names of upstreams unique, and drops upstreams that no model uses.
func (p *conversionPlan) nameUpstreams() {
	used := map[*upstream]bool{}
	for _, m := range p.models {
		for _, d := range m.deployments {
			used[d.upstream] = true
		}
	}
	p.upstreams = slices.DeleteFunc(p.upstreams, func(u *upstream) bool { return !used[u] })
	taken := map[string]bool{}
	for _, u := range p.upstreams {
		u.name = cmp.Or(u.name, "engine")
		wish := u.name
		for n := 2; taken[u.name]; n++ {
			u.name = fmt.Sprintf("%s-%d", wish, n)
		}
		taken[u.name] = true
	}
}

// dropConflictingAliases drops aliases that belong to two models or equal the id of a model.
func (p *conversionPlan) dropConflictingAliases() {
	seen := map[string]string{}
	for _, m := range p.models {
		m.aliases = slices.DeleteFunc(m.aliases, func(alias string) bool {
			other, twice := seen[alias]
			switch {
			case alias == m.id || twice && other == m.id:
				return true
			case p.findModel(alias) != nil:
				p.addNote("the alias %q of %s is a model's own name, so it is left out", alias, m.id)
				return true
			case twice:
				p.addNote("the alias %q leads to %s and to %s: only the first is kept", alias, other, m.id)
				return true
			}
			seen[alias] = m.id
			return false
		})
	}
}

// resolveFallbacks resolves aliases, and drops fallbacks that cannot replace a model.
func (p *conversionPlan) resolveFallbacks() {
	hasFallback := false
	for _, m := range p.models {
		var fit []string
		for _, name := range m.fallback {
			other := p.findModel(name)
			for _, aliased := range p.models {
				if other == nil && slices.Contains(aliased.aliases, name) {
					other = aliased
				}
			}
			switch {
			case other == nil:
				p.addNote("the fallback of %s to %q: there is no such model in this file", m.id, name)
			case other == m || slices.Contains(fit, other.id):
			case other.kind != m.kind:
				p.addNote("the fallback of %s to %s: they are of different kinds (%s, %s)", m.id, other.id, m.kind, other.kind)
			default:
				fit = append(fit, other.id)
			}
		}
		m.fallback = fit
		hasFallback = hasFallback || len(fit) > 0
	}
	if hasFallback {
		p.addNote("fallbacks: another model answers while no engine of the first has a slot or takes calls, and when a call has failed at the engines of the first")
	}
}

func slugify(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z') {
			return r
		}
		return '-'
	}, s)
	return strings.Trim(s, "-")
}
