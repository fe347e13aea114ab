package guard_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"penstock/proxy/telemetry/guard"
)

// unserved lists functions that start goroutines without a guard. They run in commands other than
// serve, or before serve accepts connections. A panic in such a goroutine ends the command and
// prints the stack.
var unserved = map[string]bool{
	"upstreams/engine/detect.go Discover":          true,
	"proxy/tools/batch/batch.go run.processLines":  true,
	"proxy/tools/batch/batch.go run.printProgress": true,
	"proxy/operate/top/screen_unix.go watchSize":   true,
	"proxy/operate/top/top.go Run":                 true,
	"proxy/operate/top/top.go loop.queryEdge":      true, // top.Run raises the panic again
}

// TestGoroutinesAreGuarded checks that every goroutine catches panics under the name of a place,
// and that each place is used.
func TestGoroutinesAreGuarded(t *testing.T) {
	s := readSources(t)
	used, found := map[string]bool{}, 0
	for _, f := range s.funcs {
		for _, place := range s.places(t, f) {
			used[place] = true
			found++
		}
	}
	for _, p := range guard.PanicPlaces() {
		if !used[p] {
			t.Errorf("nothing is caught under %s", p)
		}
		delete(used, p)
	}
	delete(used, "-")
	for p := range used {
		t.Errorf("something is caught under %s, which Places has not", p)
	}
	if found < 80 {
		t.Errorf("only %d starts and catches were found: does the test still read the sources?", found)
	}
}

// function identifies a function of the edge, with a method's receiver in its name:
// "proxy/request/call/relay.go relay.writeBody".
type function struct {
	name, pkg string
	decl      *ast.FuncDecl
}

type sources struct {
	funcs     []function
	constants map[string]string     // string constants, such as "upstreams.guardProbe"
	called    map[string][]function // keyed by package and bare name
}

func readSources(t *testing.T) *sources {
	s := &sources{constants: map[string]string{}, called: map[string][]function{}}
	root := filepath.Join("..", "..", "..")
	for _, top := range []string{"proxy", "upstreams", "routing", "config"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "e2e" || d.Name() == "testkit" || d.Name() == "calltest"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			name, err := filepath.Rel(root, path)
			if err == nil {
				err = s.read(path, filepath.ToSlash(name))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *sources) read(path, name string) error {
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && len(v.Values) == 1 {
					if lit, ok := v.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						s.constants[f.Name.Name+"."+v.Names[0].Name], _ = strconv.Unquote(lit.Value)
					}
				}
			}
		case *ast.FuncDecl:
			if f.Name.Name == "guard" || d.Body == nil {
				continue
			}
			full := d.Name.Name
			if d.Recv != nil {
				full = receiver(d.Recv.List[0].Type) + "." + full
			}
			fn := function{name + " " + full, f.Name.Name, d}
			s.funcs = append(s.funcs, fn)
			s.called[f.Name.Name+"."+d.Name.Name] = append(s.called[f.Name.Name+"."+d.Name.Name], fn)
		}
	}
	return nil
}

func receiver(e ast.Expr) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	return fmt.Sprint(e)
}

// places returns the places under which f, and every goroutine that f starts, catch panics.
func (s *sources) places(t *testing.T, f function) (found []string) {
	add := func(place, what string) {
		switch {
		case place != "":
			found = append(found, place)
		case unserved[f.name]:
			found = append(found, "-")
		default:
			t.Errorf("%s: %s is not guarded", f.name, what)
		}
	}
	ast.Inspect(f.decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(s.guardedStartPlace(f.pkg, n.Call), "a go statement")
		case *ast.DeferStmt:
			if place := s.catchPlace(f.pkg, n); place != "" {
				found = append(found, place)
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc") {
				add(s.deferredPlace(f.pkg, n.Args[len(n.Args)-1]), "what "+sel.Sel.Name+" starts")
			}
		}
		return true
	})
	return found
}

// guardedStartPlace returns the place in a go statement that calls Guard.RunWithRecover or Guard.Loop.
func (s *sources) guardedStartPlace(pkg string, c *ast.CallExpr) string {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if ok && (sel.Sel.Name == "RunWithRecover" || sel.Sel.Name == "Loop") {
		return s.constantValue(pkg, c.Args[len(c.Args)-2])
	}
	return ""
}

// deferredPlace returns the place named by a function that starts with a deferred Catch. e is a
// function literal or the name of a method.
func (s *sources) deferredPlace(pkg string, e ast.Expr) string {
	var bodies []*ast.BlockStmt
	switch e := e.(type) {
	case *ast.FuncLit:
		bodies = append(bodies, e.Body)
	case *ast.SelectorExpr:
		for _, f := range s.called[pkg+"."+e.Sel.Name] {
			bodies = append(bodies, f.decl.Body)
		}
	}
	if len(bodies) != 1 || len(bodies[0].List) == 0 {
		return ""
	}
	if d, ok := bodies[0].List[0].(*ast.DeferStmt); ok {
		return s.catchPlace(pkg, d)
	}
	return ""
}

func (s *sources) catchPlace(pkg string, d *ast.DeferStmt) string {
	if sel, ok := d.Call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Catch" && len(d.Call.Args) == 2 {
		return s.constantValue(pkg, d.Call.Args[0])
	}
	return ""
}

func (s *sources) constantValue(pkg string, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return s.constants[pkg+"."+e.Name]
	case *ast.SelectorExpr:
		return s.constants[fmt.Sprint(e.X)+"."+e.Sel.Name]
	}
	return ""
}
