package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// operators lists the API groups whose kinds are defined by operators. These kinds are unknown
// here, so their objects are only counted.
var operators = []string{"keda.sh", "monitoring.coreos.com"}

// TestManifests checks that every field of an object is defined for the object's kind. It checks
// the manifests of .deploy and the rendered charts in the folder that PENSTOCK_CHART names, if it
// is set.
func TestManifests(t *testing.T) {
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	deploy := "../../../.deploy"
	known, unknown := 0, 0
	patterns := []string{deploy + "/kubernetes.yaml", deploy + "/kubernetes/*.yaml", deploy + "/keda.yaml"}
	if chart := os.Getenv("PENSTOCK_CHART"); chart != "" {
		patterns = append(patterns, chart+"/*.yaml")
	}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			objects := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text)))
			for {
				object := make([]byte, len(text))
				n, err := objects.Read(object)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				_, kind, err := strict.Decode(object[:n], nil, nil)
				switch {
				case err == nil:
					known++
				case runtime.IsNotRegisteredError(err) && slices.Contains(operators, kind.Group):
					unknown++
				default:
					t.Errorf("%s: %v: %v", path, kind, err)
				}
			}
		}
	}
	t.Logf("%d objects of known kinds, %d of operators' kinds", known, unknown)
	if known < 9 || unknown == 0 {
		t.Errorf("%d objects of known kinds, %d of operators' kinds, want at least 9 and 1", known, unknown)
	}
}
