package command

import (
	"encoding/json"
	"io"
	"os"
)

// formatJSON is the value of --format for output that programs read. Each command that prints
// results has the flag, and its help describes the JSON.
const formatJSON = "json"

// printJSON writes a document to standard output.
func printJSON(doc any) error { return writeJSON(os.Stdout, doc) }

func writeJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
