package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// expand replaces every ${VAR} of text by the variable's value; $${VAR} stands for the characters ${VAR}. What a variable
// holds is not expanded again, and it cannot change the structure of the file, because the tree is parsed before.
func (b *binder) expand(text string) (string, error) {
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
		value, set := b.env(name)
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

// secret binds a Secret: a literal, a text with ${VAR}, or file:PATH.
func (b *binder) secret(n ast.Node, into *Secret, path string) {
	raw, ok := rawText(n)
	if !ok {
		b.hide(n)
		b.failNode(n, path, "want a text here, not %s", kindOf(n))
		return
	}
	name, isFile := strings.CutPrefix(raw, "file:")
	if !isFile && !strings.Contains(raw, "${") {
		b.hide(n)
		b.literal = true
	}
	value, err := b.expand(raw)
	if err == nil && isFile {
		name, _ = b.expand(name)
		value, err = b.secretFile(name)
		b.warnOfMode(n, path, name)
	}
	switch {
	case err != nil:
		b.failNode(n, path, "%s", err)
	case strings.ContainsFunc(value, func(r rune) bool { return r < 0x21 || r > 0x7e }):
		b.failNode(n, path, "the secret has a blank, a line break or a character that is not ASCII, which no header can carry")
	default:
		if value == "" {
			w := b.at(startToken(n), path).problem("the secret is empty, which is as if it was not given")
			w.Warning = true
			b.report(w)
		}
		*into = Secret(value)
	}
}

// secretFile reads the file of a secret; line breaks at its end are not part of it. An empty one is an error: it may be about
// to be written, and a token that is gone for that moment would leave its door open.
func (b *binder) secretFile(name string) (string, error) {
	if name == "" {
		return "", errors.New("file: must be followed by a path")
	}
	name = resolvePath(b.dir, name)
	b.files = append(b.files, name)
	text, err := readRegular(name, 64<<10)
	value := strings.TrimRight(string(text), "\r\n")
	if err == nil && value == "" {
		return "", fmt.Errorf("%s is empty: write the secret there, or leave the setting out", name)
	}
	return value, err
}

// warnOfMode warns of a secret's file that every user of the machine can read.
func (b *binder) warnOfMode(n ast.Node, path, name string) {
	name = resolvePath(b.dir, name)
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || !tooOpen(info) {
		return
	}
	w := b.at(startToken(n), path).problem(fmt.Sprintf("%s has mode %04o: chmod 640 keeps other users out", name, info.Mode().Perm()))
	w.Warning = true
	b.report(w)
}

// hide keeps the value of n out of excerpts.
func (b *binder) hide(n ast.Node) {
	at := b.at(startToken(n), "")
	last := at.line
	switch x := n.(type) {
	case *ast.StringNode:
		last += strings.Count(strings.TrimSpace(x.Token.Origin), "\n")
	case *ast.LiteralNode:
		last += 1 + strings.Count(x.Value.Value, "\n")
	case *ast.SequenceNode, *ast.MappingNode, *ast.MappingValueNode:
		ast.Walk(lastLine{&last}, n)
	}
	b.src.hide(at.line, at.column, last)
}

// lastLine finds the last line that a tree reaches.
type lastLine struct{ line *int }

func (l lastLine) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil {
		*l.line = max(*l.line, t.Position.Line+strings.Count(strings.TrimSpace(t.Origin), "\n"))
	}
	return l
}

// hideLikely hides the value of a key that is not bound when its name says that it is a secret.
func (b *binder) hideLikely(name string, n ast.Node) {
	if n != nil && secretName(name) && !isReference(n) {
		b.hide(n)
	}
}

func isReference(n ast.Node) bool {
	text, ok := rawText(n)
	return ok && (strings.HasPrefix(text, "${") || strings.HasPrefix(text, "file:"))
}

// secretName reports whether a key of this name is likely to hold a secret.
func secretName(name string) bool {
	name = plainWord(name)
	for _, word := range []string{"key", "token", "secret", "pass", "hash", "auth", "bearer", "cred"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// resolvePath makes a path of the file absolute to the file's folder. An empty one stays empty.
func resolvePath(dir, name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// readRegular reads a regular file of at most limit bytes. Pipes and devices are refused, because reading one may never end.
func readRegular(name string, limit int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a directory, not a file", name)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return readBounded(name, limit)
}

// readBounded reads any file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fileError(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fileError(name, err)
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s is larger than %s", name, Bytes(limit))
	}
	return text, nil
}

// fileError says in one line why a file cannot be read.
func fileError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", name)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s cannot be read: permission denied; let the user that runs penstock read it", name)
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s cannot be read: %w", name, err)
}
