package main

import (
	"cmp"
	"fmt"
	"go/types"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
)

// fileReference is a pair of files. names contains the declarations in the second file (to) that
// the first file (from) uses.
type fileReference struct {
	from, to int
	names    map[string]int
}

// fileReferences returns all pairs of files in a package in which one file uses declarations of the
// other.
func fileReferences(t *moduleTree, p *parsedPackage) []*fileReference {
	number := map[string]int{}
	for i, path := range p.paths {
		number[path] = i
	}
	pairs := map[[2]int]*fileReference{}
	for ident, obj := range p.info.Uses {
		if obj.Pkg() == nil || !obj.Pos().IsValid() {
			continue
		}
		if _, pkgName := obj.(*types.PkgName); pkgName {
			continue
		}
		to, ours := number[t.fset.Position(obj.Pos()).Filename]
		from := number[t.fset.Position(ident.Pos()).Filename]
		if !ours || to == from {
			continue
		}
		pair := pairs[[2]int{from, to}]
		if pair == nil {
			pair = &fileReference{from: from, to: to, names: map[string]int{}}
			pairs[[2]int{from, to}] = pair
		}
		pair.names[obj.Name()]++
	}
	var all []*fileReference
	for _, pair := range pairs {
		all = append(all, pair)
	}
	slices.SortFunc(all, func(a, b *fileReference) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all
}

// layering is the best order of a package's files.
type layering struct {
	order  []int // from top to bottom
	refs   []*fileReference
	upward []*fileReference // pairs that go against the order
}

func (l *layering) downwardShare() float64 {
	if len(l.refs) == 0 {
		return 0
	}
	return float64(len(l.upward)) / float64(len(l.refs))
}

// bestLayering returns the order of p's files with the fewest upward references.
func bestLayering(t *moduleTree, p *parsedPackage) *layering {
	l := &layering{refs: fileReferences(t, p)}
	down := make([][]bool, len(p.files))
	for i := range down {
		down[i] = make([]bool, len(p.files))
	}
	for _, r := range l.refs {
		down[r.from][r.to] = true
	}
	for _, circle := range stronglyConnected(down) {
		l.order = append(l.order, bestCycleOrder(down, circle)...)
	}
	place := make([]int, len(p.files))
	for i, f := range l.order {
		place[f] = i
	}
	for _, r := range l.refs {
		if place[r.to] < place[r.from] {
			l.upward = append(l.upward, r)
		}
	}
	return l
}

// stronglyConnected returns the strongly connected components of a graph (Tarjan). Each component
// follows the components that it refers to.
func stronglyConnected(down [][]bool) [][]int {
	n := len(down)
	var (
		out        [][]int
		stack      []int
		index, low = make([]int, n), make([]int, n)
		on         = make([]bool, n)
		next       = 1
		visit      func(v int)
	)
	visit = func(v int) {
		index[v], low[v] = next, next
		next++
		stack, on[v] = append(stack, v), true
		for w := range n {
			switch {
			case !down[v][w]:
			case index[w] == 0:
				visit(w)
				low[v] = min(low[v], low[w])
			case on[w]:
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		at := slices.Index(stack, v)
		part := slices.Clone(stack[at:])
		for _, w := range part {
			on[w] = false
		}
		stack = stack[:at]
		slices.Sort(part)
		out = append(out, part)
	}
	for v := range n {
		if index[v] == 0 {
			visit(v)
		}
	}
	slices.Reverse(out)
	return out
}

// maxExactFiles is the number of files in the largest cycle whose best order is computed exactly.
// 2^18 sets of files take 0.1 s.
const maxExactFiles = 18

func bestCycleOrder(down [][]bool, circle []int) []int {
	switch {
	case len(circle) == 1:
		return circle
	case len(circle) <= maxExactFiles:
		return exactOrder(down, circle)
	default:
		return approximateOrder(down, circle)
	}
}

// exactOrder finds the best order by dynamic programming over sets of files. The cost of a set is
// the number of upward references within it, in its best order. It is computed from smaller sets,
// by trying each file of the set as its last file.
func exactOrder(down [][]bool, circle []int) []int {
	n := len(circle)
	refers := make([]uint32, n) // for each file, the set of files to which it refers
	for i, a := range circle {
		for j, b := range circle {
			if down[a][b] {
				refers[i] |= 1 << j
			}
		}
	}
	cost, last := make([]uint16, 1<<n), make([]uint8, 1<<n)
	for set := uint32(1); set < 1<<n; set++ {
		cost[set] = ^uint16(0)
		for i := range n {
			if set&(1<<i) == 0 {
				continue
			}
			// File i is below all other files in the set, so its references to them go upward.
			above := set &^ (1 << i)
			if c := cost[above] + uint16(countSetMembers(refers[i]&above)); c < cost[set] {
				cost[set], last[set] = c, uint8(i)
			}
		}
	}
	order := make([]int, n)
	for set, i := uint32(1<<n-1), n-1; i >= 0; i-- {
		order[i] = circle[last[set]]
		set &^= 1 << last[set]
	}
	return order
}

func countSetMembers(set uint32) int {
	n := 0
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// approximateOrder starts with a fixed set of random orders, and improves them by moving single
// files.
func approximateOrder(down [][]bool, circle []int) []int {
	var found []int
	least := -1
	random := rand.New(rand.NewSource(1))
	for range 60 {
		order := slices.Clone(circle)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for improveOrder(down, order) {
		}
		if n := upwardReferences(down, order); least < 0 || n < least {
			found, least = order, n
		}
	}
	return found
}

// improveOrder moves every file to the position that has the fewest upward references, and reports
// whether this improved the order.
func improveOrder(down [][]bool, order []int) bool {
	better := false
	for _, f := range slices.Clone(order) {
		at := slices.Index(order, f)
		most, to, gain := 0, at, 0
		for i := at + 1; i < len(order); i++ { // move the file down past order[i]
			gain += referencesSaved(down, order[i], f)
			if gain > most {
				most, to = gain, i
			}
		}
		gain = 0
		for i := at - 1; i >= 0; i-- { // move the file up past order[i]
			gain += referencesSaved(down, f, order[i])
			if gain > most {
				most, to = gain, i
			}
		}
		if to != at {
			copy(order[at:], order[at+1:])
			copy(order[to+1:], order[to:len(order)-1])
			order[to] = f
			better = true
		}
	}
	return better
}

// referencesSaved returns how many upward references disappear from the order if a moves from below
// b to above b.
func referencesSaved(down [][]bool, a, b int) int {
	gain := 0
	if down[a][b] {
		gain++
	}
	if down[b][a] {
		gain--
	}
	return gain
}

func upwardReferences(down [][]bool, order []int) int {
	n := 0
	for i, a := range order {
		for _, b := range order[:i] {
			if down[a][b] {
				n++
			}
		}
	}
	return n
}

// print writes the order of the files and the upward references. References with the fewest names
// come first, because they are the easiest to remove.
func (l *layering) print(p *parsedPackage) {
	fmt.Printf("%s: %d references between %d files, %d upward: %.1f %%\n\nfrom top to bottom:\n",
		p.name, len(l.refs), len(p.files), len(l.upward), 100*l.downwardShare())
	up := map[int]int{}
	for _, r := range l.upward {
		up[r.from]++
	}
	for _, f := range l.order {
		fmt.Printf("  %-28s %s\n", filepath.Base(p.paths[f]), strings.Repeat("^", up[f]))
	}
	fmt.Println("\nupward:")
	slices.SortStableFunc(l.upward, func(a, b *fileReference) int { return cmp.Compare(a.useCount(), b.useCount()) })
	for _, r := range l.upward {
		var names []string
		for name := range r.names {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(r.names[b], r.names[a]), strings.Compare(a, b)) })
		list := strings.Join(names[:min(len(names), 6)], " ")
		if len(names) > 6 {
			list += " ..."
		}
		fmt.Printf("  %-28s -> %-28s %3d x: %s\n", filepath.Base(p.paths[r.from]), filepath.Base(p.paths[r.to]), r.useCount(), list)
	}
}

func (r *fileReference) useCount() int {
	n := 0
	for _, times := range r.names {
		n += times
	}
	return n
}
