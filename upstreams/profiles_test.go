package upstreams

import (
	"net/http/httptest"
	"path/filepath"
	"testing"

	"penstock/config/testkit/pages"
	"penstock/upstreams/engine"
)

// fakeEngine serves the recorded pages of an engine from the test data of package engine.
func fakeEngine(t testing.TB, name string) *httptest.Server {
	return pages.Serve(t, filepath.Join("engine", "testdata", "engines", name+".txtar"))
}

func mustProfile(t testing.TB, name string) *engine.Profile {
	t.Helper()
	profiles, err := engine.LoadProfiles(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, ok := profiles.ByName(name)
	if !ok {
		t.Fatalf("no profile %s", name)
	}
	return p
}
