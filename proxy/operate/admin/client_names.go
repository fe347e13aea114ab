package admin

import (
	"encoding/json"
	"fmt"
	"time"
)

// EdgeNames lists the names of an edge's upstreams and models.
type EdgeNames struct{ Upstreams, Models []string }

const fullStatusPath = "/status?limit=1000000"

// FetchNames requests the names of a running edge, and waits at most patience for the response.
func FetchNames(edge Edge, patience time.Duration) (n EdgeNames, err error) {
	answer, err := edge.get(fullStatusPath, patience)
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
