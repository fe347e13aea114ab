package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRefusalsOfAnEdge checks that if an edge refuses a request, the command's error contains the
// edge's text. For a response from another program, the error must say that the address is not that
// of an edge.
func TestRefusalsOfAnEdge(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"Too many wrong admin tokens came from this address.\u001b[2J Retry in 3 seconds."}}`: "refuses: Too many wrong admin tokens came from this address.",
		`<html>busy</html>`: "answers 429: that is not the admin listener",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(body))
		}))
		err := CheckReady(Edge{Admin: server.URL})
		server.Close()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
