package quietlog

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// End lets the standard library's log write to standard error again. main calls End first, so that
// later messages from libraries are not lost.
func End() { log.SetOutput(os.Stderr) }
