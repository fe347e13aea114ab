package strictyaml

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// referenceResolver resolves references to environment variables and files.
type referenceResolver struct {
	dir   string                      // folder against which relative paths are resolved
	env   func(string) (string, bool) // os.LookupEnv
	files []string                    // files from which values were read
}

// expandVariables replaces ${VAR} with the variable's value, and $${VAR} with ${VAR}. It does not
// expand the result again. The value cannot change the structure of the file, because the tree is
// already parsed.
func (x *referenceResolver) expandVariables(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		name, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed || !isVariableName(name) {
			return "", errors.New("${ must be followed by the name of an environment variable and }; write $${ for the characters themselves")
		}
		value, set := x.env(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set", name)
		}
		out.WriteString(value)
		text = rest
	}
}

func isVariableName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// readSecretFile reads a secret from a file, without trailing line breaks. An empty file is an
// error, because another process may be about to write it, and because an empty token would allow
// access without a token. A file that all users of the machine can read causes a warning.
func (x *referenceResolver) readSecretFile(name string) (value, warning string, err error) {
	if name == "" {
		return "", "", errors.New("file: must be followed by a path")
	}
	name = ResolvePath(x.dir, name)
	x.files = append(x.files, name)
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && ReadableByOthers(info) {
		warning = fmt.Sprintf("%s has mode %04o: chmod 640 keeps other users out", name, info.Mode().Perm())
	}
	text, err := ReadRegular(name, maxSecretFileBytes)
	value = strings.TrimRight(string(text), "\r\n")
	if err == nil && value == "" {
		return "", warning, fmt.Errorf("%s is empty: write the secret there, or leave the setting out", name)
	}
	return value, warning, err
}
