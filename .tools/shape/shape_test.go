package main

import (
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOrder checks the results of both algorithms against the best of all possible orders.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewSource(7))
	for range 200 {
		n := 3 + random.Intn(5)
		down := make([][]bool, n)
		circle := make([]int, n)
		for i := range down {
			down[i], circle[i] = make([]bool, n), i
			for j := range down {
				down[i][j] = i != j && random.Intn(3) == 0
			}
		}
		least := n * n
		permute(slices.Clone(circle), 0, func(order []int) { least = min(least, upwardReferences(down, order)) })
		if got := upwardReferences(down, exactOrder(down, circle)); got != least {
			t.Fatalf("exact: %d upward, the best order has %d: %v", got, least, down)
		}
		if got := upwardReferences(down, approximateOrder(down, circle)); got != least {
			t.Fatalf("search: %d upward, the best order has %d: %v", got, least, down)
		}
		var whole []int
		for _, c := range stronglyConnected(down) {
			whole = append(whole, bestCycleOrder(down, c)...)
		}
		if got := upwardReferences(down, whole); got != least || len(whole) != n {
			t.Fatalf("by circles: %d upward, the best order has %d: %v", got, least, down)
		}
	}
}

func permute(order []int, at int, visit func([]int)) {
	if at == len(order) {
		visit(order)
		return
	}
	for i := at; i < len(order); i++ {
		order[at], order[i] = order[i], order[at]
		permute(order, at+1, visit)
		order[at], order[i] = order[i], order[at]
	}
}

// TestMeasures checks the measures of a small module.
func TestMeasures(t *testing.T) {
	root := t.TempDir()
	write := func(name string, lines ...string) {
		if err := os.WriteFile(filepath.Join(root, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module small", "go 1.26.0")
	write("a.go", "package small", "type top struct { bottom; n int }", "func (top) up() { down() }", "// "+strings.Repeat("word ", 20))
	write("b.go", "package small", "type bottom struct { a, b int }", "func (bottom) in() { top{}.up() }", "func down() {", "}")
	write("c_other.go", "//go:build never", "", "package small", "var s = `", strings.Repeat("x ", 80)+"`", "var _ = s"+strings.Repeat(" + s", 30))
	write("c_test.go", "package small")
	tree, err := loadModule(root)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, m := range measurePackage(tree, tree.pkgs[0]) {
		got[m.key()] = m.n
	}
	for key, want := range map[string]int{
		"files main": 3, "upward main": 50, "lines main.down": 2, "lines main.top.up": 1,
		"fields main.top": 3, "methods main.top": 2, "methods main.bottom": 1, "comments main": 1, "code main": 1,
	} {
		if got[key] != want {
			t.Errorf("%s: %d, not %d", key, got[key], want)
		}
	}
}
