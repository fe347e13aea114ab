package auth

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"penstock/config"
)

// ConfigValueError reports a value that would be invalid in the configuration.
type ConfigValueError struct {
	Value   string // one of "name", "models", "operations", "expires" and "limits"
	Message string
}

func (e *ConfigValueError) Error() string { return e.Value + ": " + e.Message }

// KeyConfigYAML returns the YAML lines that add a key to a configuration. If expires is empty, the
// key does not expire. The error is a *ConfigValueError.
func KeyConfigYAML(
	name, hash string, models, operations []string, expires string, limits map[string]string, known config.KnownProfiles,
) (string, error) {
	lines := fmt.Sprintf("  - id: %s\n    hash: %s\n    models: [%s]\n", quoteScalar(name), hash, quoteList(models))
	if len(operations) > 0 {
		lines += fmt.Sprintf("    operations: [%s]\n", quoteList(operations))
	}
	if expires != "" {
		lines += fmt.Sprintf("    expires: %s\n", quoteScalar(expires))
	}
	if len(limits) > 0 {
		var each []string
		for _, l := range slices.Sorted(maps.Keys(limits)) {
			each = append(each, quoteScalar(l)+": "+quoteScalar(limits[l]))
		}
		lines += "    limits: { " + strings.Join(each, ", ") + " }\n"
	}
	_, problems := config.ParseValid("key new",
		[]byte("keys:\n"+lines+"upstreams: [{ name: u, url: \"http://127.0.0.1:1\" }]\nmodels: [{ id: m, deployments: [{ upstream: u }] }]\n"), known)
	for _, p := range problems {
		_, member, _ := strings.Cut(p.Path, "].")
		switch {
		case strings.HasPrefix(member, "expires") && p.Warning: // the key has already expired
			return "", &ConfigValueError{"expires", expires + " is past"}
		case p.Warning:
		case strings.HasPrefix(member, "expires"), strings.HasPrefix(member, "models"), strings.HasPrefix(member, "limits"),
			strings.HasPrefix(member, "operations"):
			value, _, _ := strings.Cut(member, "[")
			value, _, _ = strings.Cut(value, ".")
			return "", &ConfigValueError{value, p.Message}
		default:
			return "", &ConfigValueError{"name", p.Message}
		}
	}
	return lines, nil
}

// plainScalarPattern matches text that YAML reads as a string without quotes. It also matches YAML
// keywords such as null, which quoteScalar excludes.
var plainScalarPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:+-]*$`)

// quoteScalar quotes text unless YAML reads it as the same string without quotes.
func quoteScalar(text string) string {
	switch word := strings.ToLower(text); {
	case word == "null", word == "true", word == "false", strings.HasSuffix(word, ":"), !plainScalarPattern.MatchString(text):
		return strconv.Quote(text)
	}
	return text
}

func quoteList(names []string) string {
	out := make([]string, len(names))
	for i, m := range names {
		out[i] = fmt.Sprintf("%q", m)
	}
	return strings.Join(out, ", ")
}
