package jsonx

import (
	"os"
	"strings"
	"testing"
)

// TestWithoutVectors: a run that asks for the code without vectors, as .ci/run does, gets it.
func TestWithoutVectors(t *testing.T) {
	if strings.Contains(os.Getenv("GODEBUG"), "cpu.avx2=off") && hasVector {
		t.Error("the vector code runs all the same")
	}
}
