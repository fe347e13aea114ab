package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lastRow is the last row of the matrix.
const lastRow = 104

// TestMatrixIsWhole checks that every row has a test with its number, in this package, in the
// parent package or in package realtime. The latter two run the edge in the test process.
func TestMatrixIsWhole(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, pattern := range []string{"*_test.go", "../*_test.go", "../realtime/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files of %s, %v; want some", len(files), pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	for row := 1; row <= lastRow; row++ {
		if name := fmt.Sprintf("\nfunc TestFault%02d_", row); !strings.Contains(all.String(), name) {
			t.Errorf("row %d has no test", row)
		}
	}
}
