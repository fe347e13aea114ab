package bench

import (
	"encoding/json"
	"io"
	"path/filepath"
)

// save writes a result in the form that the ending of the name says.
func save(name string, r *Result, records []*Record) error {
	switch filepath.Ext(name) {
	case ".html":
		return writeFile(name, func(w io.Writer) error { return WriteHTML(w, r) })
	case ".jsonl":
		return writeFile(name, func(w io.Writer) error {
			e := json.NewEncoder(w)
			for _, r := range records {
				if err := e.Encode(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return writeFile(name, r.Write)
}
