package proxy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"penstock/config"
	"penstock/proxy/operate/openapi"
	"penstock/proxy/request/endpoint"
)

// TestDocumentNamesEveryEndpoint checks that the document describes every endpoint. A test in
// proxy/e2e checks that it describes no other endpoints.
func TestDocumentNamesEveryEndpoint(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapi.JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, ep := range endpoint.AllEndpoints {
		path := strings.TrimPrefix(ep.Path, "/v1")
		if doc.Paths[path]["post"] == nil {
			t.Errorf("openapi.yaml does not describe POST %s", ep.Path)
		}
	}
	for _, d := range apiDocuments {
		if doc.Paths[d.path]["get"] == nil {
			t.Errorf("openapi.yaml does not describe GET %s", d.path)
		}
	}
}

// TestEveryPromisedEndpointExists checks that supported_endpoints in the configuration accepts
// exactly the endpoints that the edge serves. The catalog publishes this list unchanged.
func TestEveryPromisedEndpointExists(t *testing.T) {
	served, listed := []string{endpoint.RealtimeEndpoint.Path}, []string(nil)
	for _, ep := range endpoint.AllEndpoints {
		served = append(served, ep.Path)
	}
	for _, m := range regexp.MustCompile(`"(/(?:v1/[a-z_/]+|(?:de)?tokenize))"`).FindAllSubmatch(config.Schema(), -1) {
		if path := string(m[1]); !slices.Contains(listed, path) {
			listed = append(listed, path)
		}
	}
	slices.Sort(served)
	slices.Sort(listed)
	if !slices.Equal(served, listed) {
		t.Errorf("a configuration may list %v, the edge answers %v", listed, served)
	}
}

func TestETagMatches(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, `"a"`: true, `W/"a"`: true, "*": true, `"b"`: false, `"b", "a"`: true, `"b",W/"a" , "c"`: true, `a`: false, `"ab"`: false, `"a`: false,
	} {
		if got := etagMatches([]byte(header), `"a"`); got != want {
			t.Errorf("If-None-Match %s: %v, want %v", header, got, want)
		}
	}
}
