package command

import (
	"encoding/json"
	"io"
	"os"
)

// formatJSON is the --format value for machine-readable output. Each command that prints results
// has this flag, and the help for the flag describes the JSON.
const formatJSON = "json"

func printJSON(doc any) error { return writeJSON(os.Stdout, doc) }

func writeJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
