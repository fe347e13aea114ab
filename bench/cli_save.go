package bench

import (
	"encoding/json"
	"io"
	"path/filepath"

	"penstock/bench/report"
	"penstock/bench/result"
)

// saveResult writes a result in the format selected by the file name extension.
func saveResult(name string, r *result.Result, records []*result.Record) error {
	switch filepath.Ext(name) {
	case ".html":
		return result.WriteFile(name, func(w io.Writer) error { return report.WriteHTML(w, r) })
	case ".jsonl":
		return result.WriteFile(name, func(w io.Writer) error {
			e := json.NewEncoder(w)
			for _, r := range records {
				if err := e.Encode(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return result.WriteFile(name, r.Write)
}
