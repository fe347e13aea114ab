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

// reference is a pair of files. It contains the names of the declarations in the file to that the
// file from uses.
type reference struct {
	from, to int
	names    map[string]int
}

// references returns all pairs of files in a package in which one file uses declarations of the
// other.
func references(t *tree, p *pkg) []*reference {
	number := map[string]int{}
	for i, path := range p.paths {
		number[path] = i
	}
	pairs := map[[2]int]*reference{}
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
			pair = &reference{from: from, to: to, names: map[string]int{}}
			pairs[[2]int{from, to}] = pair
		}
		pair.names[obj.Name()]++
	}
	var all []*reference
	for _, pair := range pairs {
		all = append(all, pair)
	}
	slices.SortFunc(all, func(a, b *reference) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return all
}

// layering is the best order of a package's files.
type layering struct {
	order  []int // from top to bottom
	refs   []*reference
	upward []*reference // pairs that go against the order
}

func (l *layering) share() float64 {
	if len(l.refs) == 0 {
		return 0
	}
	return float64(len(l.upward)) / float64(len(l.refs))
}

// layer returns the order of p's files with the fewest upward references.
func layer(t *tree, p *pkg) *layering {
	l := &layering{refs: references(t, p)}
	down := make([][]bool, len(p.files))
	for i := range down {
		down[i] = make([]bool, len(p.files))
	}
	for _, r := range l.refs {
		down[r.from][r.to] = true
	}
	for _, circle := range circles(down) {
		l.order = append(l.order, best(down, circle)...)
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

// circles returns the strongly connected components of a graph (Tarjan). Each component follows the
// components that it refers to.
func circles(down [][]bool) [][]int {
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

// exactly is the number of files in the largest cycle whose best order is computed exactly. 2^18
// sets of files take 0.1 s.
const exactly = 18

func best(down [][]bool, circle []int) []int {
	switch {
	case len(circle) == 1:
		return circle
	case len(circle) <= exactly:
		return exact(down, circle)
	default:
		return search(down, circle)
	}
}

// exact finds the best order by dynamic programming over sets of files. The cost of a set of files
// at the top of the order is the lowest cost over all choices of the last file in the set.
func exact(down [][]bool, circle []int) []int {
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
			if c := cost[above] + uint16(ones(refers[i]&above)); c < cost[set] {
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

func ones(set uint32) int {
	n := 0
	for ; set != 0; set &= set - 1 {
		n++
	}
	return n
}

// search starts with a fixed set of random orders, and improves them by moving single files.
func search(down [][]bool, circle []int) []int {
	var found []int
	least := -1
	random := rand.New(rand.NewSource(1))
	for range 60 {
		order := slices.Clone(circle)
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for sift(down, order) {
		}
		if n := against(down, order); least < 0 || n < least {
			found, least = order, n
		}
	}
	return found
}

// sift moves every file to the position that has the fewest upward references, and reports whether
// this improved the order.
func sift(down [][]bool, order []int) bool {
	better := false
	for _, f := range slices.Clone(order) {
		at := slices.Index(order, f)
		most, to, gain := 0, at, 0
		for i := at + 1; i < len(order); i++ { // move the file down past order[i]
			gain += gained(down, order[i], f)
			if gain > most {
				most, to = gain, i
			}
		}
		gain = 0
		for i := at - 1; i >= 0; i-- { // move the file up past order[i]
			gain += gained(down, f, order[i])
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

// gained returns how many upward references disappear from the order if a moves from below b to
// above b.
func gained(down [][]bool, a, b int) int {
	gain := 0
	if down[a][b] {
		gain++
	}
	if down[b][a] {
		gain--
	}
	return gain
}

func against(down [][]bool, order []int) int {
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
func (l *layering) print(p *pkg) {
	fmt.Printf("%s: %d references between %d files, %d upward: %.1f %%\n\nfrom top to bottom:\n",
		p.name, len(l.refs), len(p.files), len(l.upward), 100*l.share())
	up := map[int]int{}
	for _, r := range l.upward {
		up[r.from]++
	}
	for _, f := range l.order {
		fmt.Printf("  %-28s %s\n", filepath.Base(p.paths[f]), strings.Repeat("^", up[f]))
	}
	fmt.Println("\nupward:")
	slices.SortStableFunc(l.upward, func(a, b *reference) int { return cmp.Compare(a.count(), b.count()) })
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
		fmt.Printf("  %-28s -> %-28s %3d x: %s\n", filepath.Base(p.paths[r.from]), filepath.Base(p.paths[r.to]), r.count(), list)
	}
}

func (r *reference) count() int {
	n := 0
	for _, times := range r.names {
		n += times
	}
	return n
}
