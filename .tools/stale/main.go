// Stale reports comments that name what the code no longer has. It is part of .ci/run.
//
// It reads the module's Go files, which it only parses, and its Markdown files, and reports
//
//   - pkg.Name, pkg.Type.Member, Type.Member and [Name] if pkg is a package of the module or Type is
//     written like a type, and there is no such declaration, method, field or promoted member
//   - a word that is written like an identifier (camelCase, or a capital within a sentence), but is
//     neither an identifier of the package nor part of a string of the module
//   - name.go if the folder has no such file
//   - a doc comment that starts with an identifier that the package does not have
//
// Settings (admin.listen), quoted text and the packages of other modules are not checked. An identifier
// of another package needs its package: pkg.Name, or "name of package pkg". Proper names belong into
// words.go.
//
//	go -C .tools run ./stale
package main

import (
	"fmt"
	"os"
)

func main() {
	root := ".."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	m, err := readModule(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	findings := m.check()
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		fmt.Println("correct these comments; .tools/stale/words.go lists proper names, such as JavaScript")
		os.Exit(1)
	}
}
