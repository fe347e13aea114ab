package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// instructionCost contains what a function, a package, or the whole program executes per unit.
type instructionCost struct {
	instructions float64 // executed instructions
	calls        float64
	different    float64 // distinct instructions: those of blocks that run at least 0.5 times per unit
	repeated     float64 // part of different that is counted twice, because a jump leads into the middle of a block
	rare         float64 // distinct instructions of blocks that run 0.001 to 0.5 times per unit
	rareExecuted float64 // executed instructions of blocks that run less than 0.5 times per unit
}

// costTable sums up blocks by function and by package.
type costTable struct {
	all                 instructionCost
	functions, packages map[string]*instructionCost
	// For the blocks that count as different, longest maps the address at which a block ends to the
	// length of the longest block that ends there.
	longest map[uint64]float64
}

func newCostTable() *costTable {
	return &costTable{functions: map[string]*instructionCost{}, packages: map[string]*instructionCost{}, longest: map[uint64]float64{}}
}

func (t *costTable) addBlock(f functionSymbol, address uint64, b blockCount, n float64) {
	var c instructionCost
	length := float64(b.length)
	c.instructions = float64(b.executed) / n
	executions := c.instructions / length
	if address == f.address {
		c.calls = executions
	}
	switch {
	case executions >= 0.5:
		c.different = length
		known := t.longest[b.end]
		c.repeated = min(known, length)
		t.longest[b.end] = max(known, length)
	case executions >= 0.001:
		c.rare = length
		fallthrough
	default:
		c.rareExecuted = c.instructions
	}
	for _, sum := range []*instructionCost{&t.all, getOrAddCost(t.functions, f.name), getOrAddCost(t.packages, functionPackage(f.name))} {
		sum.instructions += c.instructions
		sum.calls += c.calls
		sum.different += c.different
		sum.repeated += c.repeated
		sum.rare += c.rare
		sum.rareExecuted += c.rareExecuted
	}
}

func getOrAddCost(by map[string]*instructionCost, name string) *instructionCost {
	c := by[name]
	if c == nil {
		c = &instructionCost{}
		by[name] = c
	}
	return c
}

// functionPackage returns the import path of a function's package. Assembly and generated functions
// of the runtime have names without a package.
func functionPackage(function string) string {
	function, _, _ = strings.Cut(function, "[")
	folder := strings.LastIndexByte(function, '/') + 1
	name, _, ok := strings.Cut(function[folder:], ".")
	if !ok || strings.HasPrefix(function, "type:") || strings.HasPrefix(function, "go:") {
		return "(no package)"
	}
	return function[:folder] + name
}

// print writes the functions and the packages with the most instructions, and those with the most
// different instructions.
func (t *costTable) print(w io.Writer, top int) {
	executed := func(c *instructionCost) float64 { return c.instructions }
	different := func(c *instructionCost) float64 { return c.different + c.rare/1e6 }
	for _, by := range []struct {
		title string
		costs map[string]*instructionCost
		of    func(*instructionCost) float64
	}{
		{"functions by instructions", t.functions, executed},
		{"functions by different instructions", t.functions, different},
		{"packages by instructions", t.packages, executed},
		{"packages by different instructions", t.packages, different},
	} {
		fmt.Fprintf(w, "\n%12s %8s %10s %9s %8s  %s\n", "instructions", "calls", "different", "repeated", "rare", by.title)
		names := slices.SortedFunc(maps.Keys(by.costs), func(a, b string) int {
			x, y := by.of(by.costs[a]), by.of(by.costs[b])
			switch {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return strings.Compare(a, b)
		})
		for _, name := range names[:min(top, len(names))] {
			c := by.costs[name]
			fmt.Fprintf(w, "%12.0f %8.2f %10.0f %9.0f %8.0f  %s\n", c.instructions, c.calls, c.different, c.repeated, c.rare, name)
		}
	}
	entered := 0
	for _, c := range t.functions {
		if c.calls >= 0.5 {
			entered++
		}
	}
	fmt.Fprintf(w, "\n%.0f different instructions in %d functions: %.0f of them are counted more than once, because a jump leads into the middle of a block.\n", t.all.different, entered, t.all.repeated)
	fmt.Fprintf(w, "Fewer than half of the requests execute another %.0f different instructions, %.0f instructions a request. They are not in the count.\n\n", t.all.rare, t.all.rareExecuted)
}
