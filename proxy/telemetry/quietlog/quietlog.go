package quietlog

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// End lets the standard library's log write to standard error again. main calls End first.
func End() { log.SetOutput(os.Stderr) }
