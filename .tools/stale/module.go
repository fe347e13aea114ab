package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// module contains the names of a module.
type module struct {
	path     string               // its import path
	fset     *token.FileSet       // positions, relative to the module's root
	packages map[string]*pkg      // by folder; a package and its external tests are one package
	byName   map[string][]*pkg    // by package name
	pages    map[string]string    // the Markdown files: their text by path
	external map[string]bool      // names of imported packages of other modules
	strings  map[string]bool      // the words of all strings
	members  map[string]bool      // the fields and methods of all types
	types    map[string][]*goType // all types by name
	fields   map[string][]embed   // the types of all fields by the name of the field
}

// pkg contains the names of the packages in one folder.
type pkg struct {
	files  []*file
	names  map[string]bool    // the names of its files
	scope  map[string]bool    // names that are declared outside of functions
	idents map[string]bool    // all identifiers
	vars   map[string]bool    // the identifiers that are not only names of packages
	types  map[string]*goType // by name, including types that functions declare
}

// file is a Go file.
type file struct {
	*ast.File
	imports map[string]string // import paths by the name in the file
}

// goType contains the members that a type declares and the types from which it gets more.
type goType struct {
	members map[string]bool
	embeds  []embed
}

// embed is an embedded type, the target of an alias, or the underlying named type.
type embed struct {
	folder string // of its package; "-" in another module
	name   string
}

// wordPattern matches a word of a string.
var wordPattern = regexp.MustCompile(`[A-Za-z_]\w*`)

// readModule parses a module.
func readModule(root string) (*module, error) {
	gomod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return nil, err
	}
	m := &module{
		path: strings.Fields(string(gomod))[1], fset: token.NewFileSet(),
		packages: map[string]*pkg{}, byName: map[string][]*pkg{}, pages: map[string]string{},
		external: map[string]bool{}, strings: map[string]bool{}, members: map[string]bool{}, types: map[string][]*goType{},
		fields: map[string][]embed{},
	}
	names, err := m.listFiles(root)
	if err != nil {
		return nil, err
	}
	parsed, errs := make([]*ast.File, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, name := range names {
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			var text []byte
			if text, errs[i] = os.ReadFile(filepath.Join(root, name)); errs[i] == nil {
				parsed[i], errs[i] = parser.ParseFile(m.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
			}
		})
	}
	wait.Wait()
	for i, f := range parsed {
		if errs[i] != nil {
			return nil, errs[i]
		}
		m.addFile(path.Dir(names[i]), f)
	}
	return m, nil
}

// listFiles returns the paths of the Go files, and reads the Markdown files.
func (m *module) listFiles(root string) (names []string, err error) {
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		switch rel = filepath.ToSlash(rel); {
		case err != nil:
			return err
		case entry.IsDir():
			if name := entry.Name(); name == ".git" || name == "testdata" || name == "node_modules" {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && rel != "." {
				return fs.SkipDir // another module
			}
		case strings.HasSuffix(rel, ".go"):
			names = append(names, rel)
		case strings.HasSuffix(rel, ".md"):
			text, err := os.ReadFile(file)
			m.pages[rel] = string(text)
			return err
		}
		return nil
	})
	return names, err
}

// addFile adds the names of a file.
func (m *module) addFile(folder string, f *ast.File) {
	p := m.packages[folder]
	if p == nil {
		p = &pkg{names: map[string]bool{}, scope: map[string]bool{}, idents: map[string]bool{}, vars: map[string]bool{}, types: map[string]*goType{}}
		m.packages[folder] = p
	}
	name := strings.TrimSuffix(f.Name.Name, "_test")
	if known := m.byName[name]; len(known) == 0 || known[len(known)-1] != p {
		m.byName[name] = append(known, p)
	}
	imports := map[string]string{}
	for _, spec := range f.Imports {
		importPath, _ := strconv.Unquote(spec.Path.Value)
		alias := packageName(importPath)
		if spec.Name != nil {
			alias = spec.Name.Name
		}
		imports[alias] = importPath
		if m.folderOf(importPath) == "-" {
			m.external[alias] = true
		}
	}
	added := &file{f, imports}
	p.files = append(p.files, added)
	p.names[path.Base(m.fset.Position(f.Package).Filename)] = true
	for _, decl := range f.Decls {
		m.addDeclaration(p, decl)
	}
	packageNames := map[*ast.Ident]bool{f.Name: true}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Ident:
			p.idents[n.Name] = true
			p.vars[n.Name] = p.vars[n.Name] || !packageNames[n]
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && imports[x.Name] != "" {
				packageNames[x] = true
			}
		case *ast.Field:
			for _, name := range n.Names {
				m.fields[name.Name] = append(m.fields[name.Name], m.typeReference(folder, added, elementType(n.Type)))
			}
		case *ast.TypeSpec:
			m.addType(p, folder, added, n)
		case *ast.StructType:
			m.addFields(nil, n.Fields)
		case *ast.InterfaceType:
			m.addFields(nil, n.Methods)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				for _, word := range wordPattern.FindAllString(n.Value, -1) {
					m.strings[word] = true
				}
			}
		}
		return true
	})
}

// addDeclaration adds the names that a declaration outside of functions declares.
func (m *module) addDeclaration(p *pkg, decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			p.scope[decl.Name.Name] = true
			return
		}
		m.members[decl.Name.Name] = true
		if name := typeName(decl.Recv.List[0].Type); name != nil {
			m.typeOf(p, name.(*ast.Ident).Name).members[decl.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			for _, name := range specNames(spec) {
				p.scope[name] = true
			}
		}
	}
}

// specNames returns the names that a specification declares.
func specNames(spec ast.Spec) (names []string) {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []string{spec.Name.Name}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// typeOf returns a type of a package, which it adds if necessary.
func (m *module) typeOf(p *pkg, name string) *goType {
	t := p.types[name]
	if t == nil {
		t = &goType{members: map[string]bool{}}
		p.types[name] = t
		m.types[name] = append(m.types[name], t)
	}
	return t
}

// addType adds the members of a type.
func (m *module) addType(p *pkg, folder string, f *file, spec *ast.TypeSpec) {
	t := m.typeOf(p, spec.Name.Name)
	var embedded []ast.Expr
	switch underlying := spec.Type.(type) {
	case *ast.StructType:
		embedded = m.addFields(t, underlying.Fields)
	case *ast.InterfaceType:
		embedded = m.addFields(t, underlying.Methods)
	default:
		embedded = []ast.Expr{underlying}
	}
	for _, e := range embedded {
		t.embeds = append(t.embeds, m.typeReference(folder, f, e))
	}
}

// typeReference returns the place of a named type, or the zero embed.
func (m *module) typeReference(folder string, f *file, e ast.Expr) embed {
	switch name := typeName(e).(type) {
	case *ast.Ident:
		return embed{folder, name.Name}
	case *ast.SelectorExpr:
		return embed{m.folderOf(f.imports[name.X.(*ast.Ident).Name]), name.Sel.Name}
	}
	return embed{}
}

// elementType returns the type of the elements of a list, or e itself.
func elementType(e ast.Expr) ast.Expr {
	switch list := e.(type) {
	case *ast.ArrayType:
		return elementType(list.Elt)
	case *ast.MapType:
		return elementType(list.Value)
	}
	return e
}

// addFields adds fields or interface methods to a type, if it has a name, and returns the embedded
// types.
func (m *module) addFields(t *goType, fields *ast.FieldList) (embedded []ast.Expr) {
	add := func(name string) {
		m.members[name] = true
		if t != nil {
			t.members[name] = true
		}
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			add(name.Name)
		}
		if len(field.Names) > 0 {
			continue
		}
		embedded = append(embedded, field.Type)
		switch name := typeName(field.Type).(type) {
		case *ast.Ident:
			add(name.Name)
		case *ast.SelectorExpr:
			add(name.Sel.Name)
		}
	}
	return embedded
}

// typeName returns the identifier or selector of a named type, without pointers and type arguments,
// or nil.
func typeName(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ParenExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident, *ast.SelectorExpr:
		return e
	}
	return nil
}

// folderOf returns the folder of an imported package, or "-" if it belongs to another module.
func (m *module) folderOf(importPath string) string {
	if importPath == m.path {
		return "."
	}
	if folder, ok := strings.CutPrefix(importPath, m.path+"/"); ok {
		return folder
	}
	return "-"
}

// packageName guesses the name of a package from its path: golang.org/x/mod/v2 is mod.
func packageName(importPath string) string {
	name := path.Base(importPath)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(importPath))
	}
	return name
}
