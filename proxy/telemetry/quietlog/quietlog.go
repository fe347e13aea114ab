package quietlog

import (
	"io"
	"log"
	"os"
)

func init() { log.SetOutput(io.Discard) }

// End lets the standard library's log write to standard error again. The program calls it first in
// main: what libraries have to report later is heard.
func End() { log.SetOutput(os.Stderr) }
