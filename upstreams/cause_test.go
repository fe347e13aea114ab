package upstreams

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestCauses checks that each cause of a failure, including those of http1, is explained exactly
// once.
func TestCauses(t *testing.T) {
	t.Parallel()
	defined := map[string]bool{}
	for file, prefix := range map[string]string{"cause.go": "Cause", "http1/failure.go": "Reason"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, prefix) {
				word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				defined[word] = true
			}
			return true
		})
	}
	explained := map[string]bool{}
	for _, c := range Causes() {
		if explained[string(c.Cause)] || !strings.HasSuffix(c.Meaning, ".") || c.Cause.Meaning() != c.Meaning || c.ShortMeaning == "" || c.Cause.ShortMeaning() != c.ShortMeaning {
			t.Errorf("cause %s: words %q, meaning %q; want both, explained once, with a full stop", c.Cause, c.ShortMeaning, c.Meaning)
		}
		explained[string(c.Cause)] = true
	}
	if len(defined) < 20 || len(explained) != len(defined) {
		t.Errorf("%d causes are explained, %d defined", len(explained), len(defined))
	}
	for word := range defined {
		if !explained[word] {
			t.Errorf("the cause %s is not explained", word)
		}
	}
}
