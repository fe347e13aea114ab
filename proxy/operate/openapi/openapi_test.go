package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"

	"penstock/config/testkit/golden"
)

// TestJSONIsTheYAML checks that openapi.json is the YAML converted to indented JSON, in the same
// order. With -update, it writes the file.
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
	golden.CompareFile(t, "openapi.json", want.Bytes())
}

// TestDocumentIsValid checks both documents with an independent parser.
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

// TestVersionIsATime checks rule 2 in the Versioning chapter of the contract.
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
