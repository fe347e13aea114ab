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
		over   = flag.Bool("over", false, "print what is above its limit, exceptions too, in the form of the file of exceptions")
		lower  = flag.Bool("lower", false, "lower the known exceptions to today's numbers")
		upward = flag.String("upward", "", "print the layering of one package")
		root   = flag.String("root", "..", "the module")
	)
	flag.Parse()
	ok, err := run(*root, *all, *upward, *over, *lower)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run reports whether the tree has its shape.
func run(root, prefix, upward string, over, lower bool) (bool, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return false, err
	}
	t, err := load(root)
	if err != nil {
		return false, err
	}
	var all []*measure
	for _, p := range t.pkgs {
		if upward == p.name {
			layer(t, p).print(p)
			return true, nil
		}
		all = append(all, measures(t, p)...)
	}
	if upward != "" {
		return false, fmt.Errorf("no package %q", upward)
	}
	if prefix != "-" || over {
		for _, m := range all {
			if prefix != "-" && strings.HasPrefix(m.name, prefix) || over && m.over {
				fmt.Println(m.key(), m.n)
			}
		}
		return true, nil
	}
	k, err := exceptions(root)
	if err != nil {
		return false, err
	}
	if lower {
		return true, k.lower(all)
	}
	broken := k.judge(all)
	for _, line := range broken {
		fmt.Println(strings.ReplaceAll(line, root+"/", ""))
	}
	return len(broken) == 0, nil
}
