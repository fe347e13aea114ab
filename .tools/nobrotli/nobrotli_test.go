package brrr

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// Nothing is passed through as if it were coded or decoded.
func TestRefuses(t *testing.T) {
	if _, err := io.ReadAll(NewReader(strings.NewReader("text"))); !errors.Is(err, errUnsupported) {
		t.Errorf("read: %v", err)
	}
	var out bytes.Buffer
	w, err := NewWriter(&out, BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("text")); !errors.Is(err, errUnsupported) {
		t.Errorf("write: %v", err)
	}
	if err := errors.Join(w.Flush(), w.Close()); !errors.Is(err, errUnsupported) || out.Len() > 0 {
		t.Errorf("end: %v, %q", err, &out)
	}
}
