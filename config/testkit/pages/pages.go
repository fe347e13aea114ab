// Package pages serves an engine's recorded pages from an archive.
package pages

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Serve serves an archive whose sections are named "path status". Other paths get a 404.
func Serve(t testing.TB, file string) *httptest.Server {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, f := range archive.Files {
			path, status, _ := strings.Cut(f.Name, " ")
			if path == r.URL.RequestURI() {
				code, _ := strconv.Atoi(status)
				w.WriteHeader(code)
				w.Write(bytes.TrimSuffix(f.Data, []byte("\n")))
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}
