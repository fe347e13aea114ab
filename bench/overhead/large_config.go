package overhead

import (
	"fmt"
	"strings"
)

// Numbers of keys and upstreams in a large configuration.
const (
	manyKeys      = 1000
	manyUpstreams = 200
)

// largeConfig contains the additional lines in a large configuration.
type largeConfig struct{ keys, upstreams, deployments string }

// newLargeConfig returns the additional lines of a large configuration. All upstreams refer to the
// same engine.
func newLargeConfig(engine string) largeConfig {
	var keys, upstreams, deployments strings.Builder
	for i := range manyKeys - 1 { // the first key is the client's
		fmt.Fprintf(&keys, "\n  - { id: key-%d, hash: \"sha256:%064x\" }", i, i)
	}
	for i := range manyUpstreams - 1 {
		fmt.Fprintf(&upstreams, "\n  - { name: engine-%d, url: \"http://%s\", engine: sim, concurrency: 100 }", i, engine)
		fmt.Fprintf(&deployments, ", { upstream: engine-%d }", i)
	}
	return largeConfig{keys.String(), upstreams.String(), deployments.String()}
}
