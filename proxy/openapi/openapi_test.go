package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write openapi.json anew from openapi.yaml")

// TestJSONIsTheYAML generates openapi.json as it must be: the YAML in the same order, indented.
func TestJSONIsTheYAML(t *testing.T) {
	plain, err := yaml.YAMLToJSON(yamlText)
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, bytes.TrimSpace(plain), "", " "); err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	if *update {
		if err := os.WriteFile("openapi.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want.String(), string(jsonText)); d != "" {
		t.Errorf("openapi.json is not what openapi.yaml says: run go test -run TestJSONIsTheYAML -update ./proxy/openapi\n%s", d)
	}
}

// TestDocumentIsValid has each of the two read by another parser than ours.
func TestDocumentIsValid(t *testing.T) {
	for name, text := range map[string][]byte{"yaml": YAML(), "json": JSON()} {
		t.Run(name, func(t *testing.T) {
			doc, err := openapi3.NewLoader().LoadFromData(text)
			if err != nil {
				t.Fatal(err)
			}
			if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
				t.Error(err)
			}
			if !doc.IsOpenAPI31OrLater() {
				t.Errorf("the document says OpenAPI %s", doc.OpenAPI)
			}
		})
	}
}

// TestVersionIsATime holds the contract's Versioning 2.
func TestVersionIsATime(t *testing.T) {
	var doc struct {
		Info struct{ Version string }
	}
	if err := json.Unmarshal(JSON(), &doc); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339, doc.Info.Version); err != nil {
		t.Errorf("the version is no time in ISO 8601: %v", err)
	}
}
