package load

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	"penstock/bench/benchtest"
	"penstock/bench/sim"
)

// TestRetryAfter checks that a refused client in a closed loop waits as long as the target's
// Retry-After header says, but not past the end of the run.
func TestRetryAfter(t *testing.T) {
	e := benchtest.StartEngine(t, sim.Options{})
	engine, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(engine)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte(`":77`)) { // the preflight requests fewer tokens
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}))
	defer server.Close()
	o := Options{BaseURL: server.URL, MaxConcurrency: []int{2}, OutputLen: "77", InputLen: "5", ExpectErrors: []string{"429"}}
	o.Duration = PositiveDuration(500 * time.Millisecond)
	r, records := runWithoutFloor(t, o)
	if wait := r.Penstock.Load.RetryWaitS; len(records) != 2 || r.Failed != 2 || wait <= 0 || wait > 1 {
		t.Errorf("%d requests of two clients that are to wait for ten minutes, %d refused; they waited %v s", len(records), r.Failed, wait)
	}
}
