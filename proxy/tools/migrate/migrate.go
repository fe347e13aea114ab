package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"penstock/proxy/access/auth"
)

// Conversion is the result of converting another program's configuration.
type Conversion struct {
	Program string
	Text    []byte
	// NewKey is a new key in plain text. It is set if the other file contains no key that could be
	// hashed.
	NewKey    string
	Notes     []string // settings that have no counterpart or should be checked
	Variables []string // environment variables that Text refers to
}

// Convert converts a configuration of LiteLLM's proxy.
func Convert(src []byte, env LookupEnvFunc) (*Conversion, error) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(src, &root, yaml.UseOrderedMap()); err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) { // omits the excerpt of the file, which may contain a key
			return nil, fmt.Errorf("it is no YAML: line %d: %s", syntax.Token.Position.Line, syntax.Message)
		}
		return nil, errors.New("it is no YAML mapping")
	}
	file := newSourceMapping("", root)
	p := &conversionPlan{env: env}
	switch {
	case file.takeKey("model_list") != nil:
		p.program = "LiteLLM"
		p.readLiteLLM(newSourceMapping("", root))
	case file.takeKey("upstreams") != nil:
		return nil, errors.New("it is a configuration of Penstock already: penstock check says whether it is right")
	default:
		return nil, errors.New("it is not a configuration of LiteLLM's proxy, which has a model_list")
	}
	return p.finishConversion()
}

func (p *conversionPlan) finishConversion() (*Conversion, error) {
	p.models = slices.DeleteFunc(p.models, func(m *model) bool { return len(m.deployments) == 0 })
	if len(p.models) == 0 {
		return nil, fmt.Errorf("no model of this %s configuration can be served:\n%s", p.program, strings.Join(p.notes, "\n"))
	}
	p.nameUpstreams()
	p.dropConflictingAliases()
	p.resolveFallbacks()
	c := &Conversion{Program: p.program}
	if len(p.keys) == 0 {
		plain, hash, err := auth.NewKey()
		if err != nil {
			return nil, err
		}
		c.NewKey = plain
		p.keys = []clientKey{{id: "first", hash: hash}}
	}
	c.Text, c.Notes, c.Variables = p.renderYAML(), p.notes, p.variables
	return c, nil
}
