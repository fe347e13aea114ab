package call

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSharedWords compares the table of doc.go with the sources: whatever may be written by several cores, in the packages
// that a call and its tokens pass through, has a row that says how often.
func TestSharedWords(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Fields(strings.TrimPrefix(line, "//"))
		if len(cells) < 3 || !slices.Contains([]string{"token", "call", "seldom"}, cells[1]) {
			continue
		}
		owner, fields, row := strings.Cut(cells[0], ":")
		if !row || fields == "" {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			told[owner+":"+field] = true
		}
	}
	found := map[string]bool{}
	for _, dir := range []string{"proxy/request/call", "proxy/request/attempt", "proxy/telemetry/observe", "proxy/access/limit", "routing/queue", "routing/turns", "upstreams/http1", "upstreams/progress"} {
		files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			sharedWords(f, found)
		}
	}
	for _, word := range slices.Sorted(maps.Keys(found)) {
		if !told[word] {
			t.Errorf("doc.go has no row for %s", word)
		}
		delete(told, word)
	}
	for word := range told {
		t.Errorf("doc.go has a row that the sources have not: %s", word)
	}
}

// sharedWords puts the fields and variables of a file that are for several goroutines into found, as "package.type:field".
func sharedWords(f *ast.File, found map[string]bool) {
	add := func(owner string, names []*ast.Ident, shared bool) {
		for _, name := range names {
			if shared {
				found[f.Name.Name+"."+owner+":"+name.Name] = true
			}
		}
	}
	for _, d := range f.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				shared := s.Type != nil && isShared(s.Type)
				for _, v := range s.Values {
					shared = shared || isShared(v)
				}
				add("var", s.Names, shared)
			case *ast.TypeSpec:
				if st, ok := s.Type.(*ast.StructType); ok {
					for _, field := range st.Fields.List {
						add(s.Name.Name, field.Names, isShared(field.Type))
					}
				} else if isShared(s.Type) {
					found[f.Name.Name+"."+s.Name.Name+":itself"] = true
				}
			}
		}
	}
}

// isShared reports whether a type or a value is made of what goroutines share: atomics, locks, pools, counters.
func isShared(e ast.Expr) (shared bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if _, ok := n.(*ast.FuncLit); ok {
			return false
		}
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok {
				name := pkg.Name + "." + sel.Sel.Name
				shared = shared || pkg.Name == "atomic" || pkg.Name == "sync" ||
					name == "metrics.Counter" || name == "metrics.PrometheusHistogram"
			}
		}
		return true
	})
	return shared
}
