package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var (
		all    = flag.String("all", "-", "print every measure of the packages below this prefix")
		upward = flag.String("upward", "", "print the layering of one package")
		root   = flag.String("root", "..", "the module")
	)
	flag.Parse()
	if err := printReport(*root, *all, *upward); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// printReport prints a package's layering, all measures below a prefix, or the values above the
// marks.
func printReport(root, prefix, upward string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	t, err := loadModule(root)
	if err != nil {
		return err
	}
	for _, p := range t.pkgs {
		if upward == p.name {
			bestLayering(t, p).print(p)
			return nil
		}
		if upward != "" {
			continue
		}
		for _, m := range measurePackage(t, p) {
			switch {
			case prefix != "-" && strings.HasPrefix(m.name, prefix):
				fmt.Println(m.key(), m.n)
			case prefix == "-" && m.over:
				fmt.Println(strings.ReplaceAll(m.formatLine(), root+"/", ""))
			}
		}
	}
	if upward != "" {
		return fmt.Errorf("no package %q", upward)
	}
	return nil
}
