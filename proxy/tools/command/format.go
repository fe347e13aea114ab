package command

import (
	"encoding/json"
	"io"
	"os"
)

// formatJSON is the value of --format with which a command prints for programs. Each command that
// prints results has it, and its help says what the JSON holds.
const formatJSON = "json"

// printJSON writes a document to standard output.
func printJSON(doc any) error { return writeJSON(os.Stdout, doc) }

func writeJSON(w io.Writer, doc any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(doc)
}
