package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestManifests checks that every field of an object is defined for the object's kind. The kind
// that KEDA defines is unknown here, so its objects are only counted.
func TestManifests(t *testing.T) {
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	deploy := "../../../.deploy"
	known, unknown := 0, 0
	for _, pattern := range []string{"kubernetes.yaml", "kubernetes/*.yaml", "keda.yaml"} {
		paths, err := filepath.Glob(filepath.Join(deploy, pattern))
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
				case runtime.IsNotRegisteredError(err) && kind.Group == "keda.sh":
					unknown++
				default:
					t.Errorf("%s: %v: %v", path, kind, err)
				}
			}
		}
	}
	if known < 9 || unknown != 1 {
		t.Errorf("%d objects of known kinds, %d of KEDA's, want at least 9 and 1", known, unknown)
	}
}
