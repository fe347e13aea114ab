package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lastRow is the last row of the matrix about one engine, client, operator or load at a time; those behind it are about
// hours, fleets and exposure, and are played in this process and by the load tester.
const lastRow = 84

// TestMatrixIsWhole: every row up to lastRow has a test with its number, here or beside (65, a wrong file at the start, is
// with the other tests of the command line).
func TestMatrixIsWhole(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, pattern := range []string{"*_test.go", "../process_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
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
