package admin

import (
	"encoding/json"
	"fmt"
	"time"
)

// Names holds the names of an edge's upstreams and models.
type Names struct{ Upstreams, Models []string }

// wholeState is the path of the state page with all rows in its lists.
const wholeState = "/status?limit=1000000"

// AskNames requests the Names of a running edge.
func AskNames(edge Edge, patience time.Duration) (n Names, err error) {
	answer, err := edge.get(wholeState, patience)
	if err != nil {
		return n, err
	}
	var state struct {
		Upstreams []struct{ Name string }
		Models    []struct{ ID string }
	}
	if json.Unmarshal(answer, &state) != nil {
		return n, fmt.Errorf("%s did not answer like a Penstock admin listener", edge.Admin)
	}
	for _, u := range state.Upstreams {
		n.Upstreams = append(n.Upstreams, u.Name)
	}
	for _, m := range state.Models {
		n.Models = append(n.Models, m.ID)
	}
	return n, nil
}
