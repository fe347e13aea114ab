package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestOptionsOfWholeServer checks that the admin listener responds to OPTIONS * like the public
// listener.
func TestOptionsOfWholeServer(t *testing.T) {
	t.Parallel()
	path, _ := writeConfig(t, rig.StartEngine(t, sim.Options{}), "linger: 0s")
	p := rig.StartProcess(t, "serve", "--config", path)
	for _, base := range p.WaitOutput(`serving http://(\S+)/v1 \(admin: http://([^)]+)\)`)[1:] {
		r, err := http.DefaultClient.Do(&http.Request{Method: "OPTIONS", URL: &url.URL{Scheme: "http", Host: base, Opaque: "*"}})
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 204 || !strings.Contains(r.Header.Get("Allow"), "GET") {
			t.Errorf("%s: status %d, Allow %q", base, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}
