package quietlog

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// RestoreOutput lets the standard library's log write to standard error again. main calls
// RestoreOutput first.
func RestoreOutput() { log.SetOutput(os.Stderr) }
