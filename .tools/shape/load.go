package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// parsedPackage is a parsed and type-checked package, without tests.
type parsedPackage struct {
	name  string // path below the module root; "main" is the root
	dir   string
	files []*ast.File // files built on this system, sorted by name
	paths []string    // paths of files
	all   []string    // all Go files except tests, including those for other systems
	info  *types.Info
}

// moduleTree contains all packages of a module.
type moduleTree struct {
	fset *token.FileSet
	pkgs []*parsedPackage
}

type listedPackage struct {
	Dir, ImportPath, Export string
	GoFiles, CgoFiles       []string
	IgnoredGoFiles          []string
	Module                  *struct{ Main bool }
	Error                   *struct{ Err string }
}

// loadModule reads the module at root. It reads the types of imported packages from the build
// cache.
func loadModule(root string) (*moduleTree, error) {
	cmd := exec.Command("go", "list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles,CgoFiles,IgnoredGoFiles,Module,Error", "./...")
	cmd.Dir = root
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, complaint.Bytes())
	}
	exports := map[string]string{}
	var own []listedPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			own = append(own, p)
		}
	}
	t := &moduleTree{fset: token.NewFileSet()}
	imports := importer.ForCompiler(t.fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no types of %s", path)
		}
		return os.Open(exports[path])
	})
	for _, l := range own {
		p := &parsedPackage{dir: l.Dir, name: relativePath(root, l.Dir)}
		for _, name := range append(l.GoFiles, l.CgoFiles...) {
			path := filepath.Join(l.Dir, name)
			f, err := parser.ParseFile(t.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			p.files, p.paths, p.all = append(p.files, f), append(p.paths, path), append(p.all, path)
		}
		for _, name := range l.IgnoredGoFiles {
			if !strings.HasSuffix(name, "_test.go") {
				p.all = append(p.all, filepath.Join(l.Dir, name))
			}
		}
		p.info = &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: imports, Sizes: types.SizesFor("gc", "amd64")}
		if _, err := conf.Check(l.ImportPath, t.fset, p.files, p.info); err != nil {
			return nil, err
		}
		t.pkgs = append(t.pkgs, p)
	}
	return t, nil
}

func relativePath(root, dir string) string {
	name, err := filepath.Rel(root, dir)
	if err != nil || name == "." {
		return "main"
	}
	return filepath.ToSlash(name)
}
