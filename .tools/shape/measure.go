package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// Values above these marks are reported. The marks are guides rather than limits. Tests are not
// measured. A tab counts as one column.
const (
	maxPackageFiles        = 25 // files in a package
	maxFunctionLines       = 80 // lines in a function, without its comment
	maxTypeFields          = 20 // fields of a type, including those of embedded types in its package
	maxTypeMethods         = 20 // methods of a type, including those of embedded types in its package
	minReferencesPerUpward = 6  // at most one in this many references may go upward
	// Number of upward references that any package may have, because a fraction of a few references is
	// meaningless.
	alwaysAllowedUpward   = 2
	maxCommentColumns     = 100 // columns in a comment line
	maxCodeColumns        = 120 // columns in a code line
	minUnbreakableColumns = 60  // a line may be wider if it contains a word or string that is longer than this
)

type measure struct {
	kind, name string
	n          int
	over       bool     // the value is above its mark
	where      []string // positions, or the largest of the counted items
}

func (m *measure) key() string { return m.kind + " " + m.name }

// formatLine formats the measure with at most four positions.
func (m *measure) formatLine() string {
	return fmt.Sprintf("%s %d %s", m.key(), m.n, strings.Join(m.where[:min(len(m.where), 4)], " "))
}

func measurePackage(t *moduleTree, p *parsedPackage) []*measure {
	var all []*measure
	add := func(kind, name string, n int, over bool, where ...string) {
		all = append(all, &measure{kind, name, n, over, where})
	}
	add("files", p.name, len(p.all), len(p.all) > maxPackageFiles)
	l := bestLayering(t, p)
	up, refs := len(l.upward), len(l.refs)
	share := 0
	if refs > 0 {
		share = (100*up + refs - 1) / refs
	}
	add("upward", p.name, share, up > alwaysAllowedUpward && up*minReferencesPerUpward > refs, fmt.Sprintf("%d of %d references", up, refs), "shape -upward "+p.name)
	for _, f := range p.files {
		for name, fn := range eachFunction(f) {
			from, to := t.fset.Position(fn.Pos()), t.fset.Position(fn.End())
			n := to.Line - from.Line + 1
			add("lines", p.name+"."+name, n, n > maxFunctionLines, formatPosition(from.Filename, from.Line))
		}
	}
	scope := map[*types.TypeName]bool{}
	for _, obj := range p.info.Defs {
		if name, ok := obj.(*types.TypeName); ok && !name.IsAlias() && name.Parent() == name.Pkg().Scope() {
			scope[name] = true
		}
	}
	for name := range scope {
		at := t.fset.Position(name.Pos())
		fields, methods := countFields(name.Type(), name.Pkg(), 0), countMethods(name.Type(), name.Pkg())
		add("fields", p.name+"."+name.Name(), fields, fields > maxTypeFields, formatPosition(at.Filename, at.Line))
		add("methods", p.name+"."+name.Name(), methods, methods > maxTypeMethods, formatPosition(at.Filename, at.Line))
	}
	var comments, code []string
	for _, path := range p.all {
		c, d := wideLines(path)
		comments, code = append(comments, c...), append(code, d...)
	}
	add("comments", p.name, len(comments), len(comments) > 0, comments...)
	add("code", p.name, len(code), len(code) > 0, code...)
	slices.SortFunc(all, func(a, b *measure) int { return cmp.Compare(a.key(), b.key()) })
	return all
}

func formatPosition(path string, line int) string { return fmt.Sprintf("%s:%d", path, line) }

// eachFunction iterates over the functions of a file, including function literals in variables.
func eachFunction(f *ast.File) func(yield func(string, ast.Node) bool) {
	return func(yield func(string, ast.Node) bool) {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiverName(d.Recv.List[0].Type) + "." + name
				}
				if !yield(name, d) {
					return
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					v, ok := s.(*ast.ValueSpec)
					if !ok {
						continue
					}
					for _, value := range v.Values {
						if fn, ok := value.(*ast.FuncLit); ok && !yield(v.Names[0].Name, fn) {
							return
						}
					}
				}
			}
		}
	}
}

func receiverName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiverName(t.X)
	case *ast.IndexExpr:
		return receiverName(t.X)
	case *ast.IndexListExpr:
		return receiverName(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// countFields counts the fields of a struct. All fields of an embedded struct of the same package
// count.
func countFields(t types.Type, home *types.Package, depth int) int {
	s, ok := t.Underlying().(*types.Struct)
	if !ok || depth > 8 {
		return 0
	}
	n := 0
	for f := range s.Fields() {
		inner := 0
		if named := namedType(f.Type()); f.Embedded() && named != nil && named.Obj().Pkg() == home {
			inner = countFields(named, home, depth+1)
		}
		n += max(inner, 1)
	}
	return n
}

// countMethods counts the methods of a type that are declared in its package, including promoted
// methods.
func countMethods(t types.Type, home *types.Package) int {
	if i, ok := t.Underlying().(*types.Interface); ok {
		return i.NumMethods()
	}
	n := 0
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		fn := m.Obj().(*types.Func)
		if fn.Pkg() == home && !types.IsInterface(fn.Signature().Recv().Type()) {
			n++
		}
	}
	return n
}

func namedType(t types.Type) *types.Named {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, _ := t.(*types.Named)
	return n
}

// wideLines returns the lines whose comment or code is too wide. It ignores raw strings, and lines
// that contain unbreakable text such as a long string or a URL.
func wideLines(path string) (comments, code []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	lines := bytes.Split(text, []byte("\n"))
	comment, excused := make([]bool, len(lines)+1), make([]bool, len(lines)+1)
	fset := token.NewFileSet()
	file := fset.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		from := file.Line(pos)
		to := from + strings.Count(lit, "\n")
		switch tok {
		case token.COMMENT:
			for line := from; line <= to; line++ {
				words := bytes.TrimSpace(lines[line-1])
				comment[line] = line > from || bytes.HasPrefix(words, []byte("//")) || bytes.HasPrefix(words, []byte("/*"))
				for word := range bytes.FieldsSeq(words) {
					excused[line] = excused[line] || comment[line] && len(word) > minUnbreakableColumns
				}
			}
			if strings.HasPrefix(lit, "//go:") || strings.HasPrefix(lit, "//nolint") {
				excused[from] = true
			}
		case token.STRING:
			for line := from; line <= to; line++ {
				excused[line] = excused[line] || to > from || len(lit) > minUnbreakableColumns
			}
		}
	}
	short := filepath.Base(path)
	for i, line := range lines {
		n := utf8.RuneCount(line)
		switch {
		case excused[i+1]:
		case comment[i+1] && n > maxCommentColumns:
			comments = append(comments, formatPosition(short, i+1))
		case !comment[i+1] && n > maxCodeColumns:
			code = append(code, formatPosition(short, i+1))
		}
	}
	return comments, code
}
