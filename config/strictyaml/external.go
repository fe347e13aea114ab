package strictyaml

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// external resolves values from outside the file: environment variables, and secrets from files.
type external struct {
	dir   string                      // base of relative paths
	env   func(string) (string, bool) // os.LookupEnv
	files []string                    // files that values came from
}

// expand replaces every ${VAR} in a string with the variable's value. $${VAR} stands for the
// characters ${VAR}. A variable's value is not expanded again. It cannot change the structure of
// the file, because the tree is already parsed.
func (x *external) expand(text string) (string, error) {
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
		if !closed || !variableName(name) {
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

func variableName(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != ""
}

// secretFile reads a secret from a file, without the line breaks at the end. An empty file is an
// error, because another process may be about to write it, and a missing token would allow access
// without a token. A file that every user of the machine can read causes a warning.
func (x *external) secretFile(name string) (value, warning string, err error) {
	if name == "" {
		return "", "", errors.New("file: must be followed by a path")
	}
	name = ResolvePath(x.dir, name)
	x.files = append(x.files, name)
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && TooOpen(info) {
		warning = fmt.Sprintf("%s has mode %04o: chmod 640 keeps other users out", name, info.Mode().Perm())
	}
	text, err := ReadRegular(name, maxSecretFile)
	value = strings.TrimRight(string(text), "\r\n")
	if err == nil && value == "" {
		return "", warning, fmt.Errorf("%s is empty: write the secret there, or leave the setting out", name)
	}
	return value, warning, err
}
