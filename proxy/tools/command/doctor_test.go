package command

import (
	"slices"
	"strings"
	"testing"

	"penstock/config"
)

// TestDoctorTakesNames checks that the doctor accepts the names of configured upstreams, and
// suggests a name for a misspelled one. An argument that may be a host must not change.
func TestDoctorTakesNames(t *testing.T) {
	all := []config.Upstream{{Name: "gpu-a", URL: "http://10.0.0.1:8000"}, {Name: "pods"}}
	d := Doctor{Config: "edge.yaml", URLs: []string{"gpu-a", "http://gpu-b:8000", "localhost"}}
	if err := d.replaceUpstreamNamesByURLs(all); err != nil || !slices.Equal(d.URLs, []string{"http://10.0.0.1:8000", "http://gpu-b:8000", "localhost"}) {
		t.Errorf("resolve = %v, %v; want the URL of gpu-a and the other two unchanged", d.URLs, err)
	}
	for name, want := range map[string]string{"gpu-b": `edge.yaml has no upstream "gpu-b": did you mean "gpu-a"?`, "pods": "looks for its engines"} {
		d := Doctor{Config: "edge.yaml", URLs: []string{name}}
		if err := d.replaceUpstreamNamesByURLs(all); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("resolve(%s): %v, want %q in it", name, err, want)
		}
	}
}
