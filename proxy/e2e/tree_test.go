package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTree holds the shape of the tree: files of a package, lines of a function, fields and methods of a type, references
// between files, width of lines. The limits and how they are measured are in .tools/shape, the exceptions in tree.txt.
func TestTree(t *testing.T) {
	out, err := exec.Command("go", "-C", "../../.tools", "run", "./shape").CombinedOutput()
	if err == nil {
		return
	}
	for line := range strings.Lines(string(out)) {
		t.Error(strings.TrimSpace(line))
	}
	t.Fatalf("shape: %v", err)
}
