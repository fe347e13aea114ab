package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/snapshot"
	"penstock/upstreams"
)

// modelsLosingLastUpstream returns the ids of the models that would be left without an engine
// accepting calls if the upstreams in leaving were removed. It includes models that have a
// fallback.
func modelsLosingLastUpstream(models []snapshot.Model, leaving []*upstreams.Upstream, now time.Time) (ids []string) {
	for i := range models {
		had, left := false, false
		for _, t := range models[i].Route.Targets() {
			takes := t.Upstream.DescribeObstacle(t.Served, now) == ""
			leaves := slices.Contains(leaving, t.Upstream)
			had, left = had || takes && leaves, left || takes && !leaves
		}
		if had && !left {
			ids = append(ids, models[i].Config.ID)
		}
	}
	return ids
}

const idlePollInterval = 250 * time.Millisecond

// WaitIdle waits until an edge has no calls at the named upstreams, and writes the names of idle
// upstreams to out. It does not wait for calls from other edges in a fleet.
func WaitIdle(ctx context.Context, edge Edge, names []string, out io.Writer) error {
	for first := true; ; first = false {
		body, err := edge.get("/status", topTimeout)
		if err != nil {
			return err
		}
		var s status.Status
		if err := json.Unmarshal(body, &s); err != nil {
			return fmt.Errorf("%s did not answer like a Penstock admin listener", edge.Admin)
		}
		var busy []string
		for i := range s.Upstreams {
			if u := &s.Upstreams[i]; slices.Contains(names, u.Label) && slices.ContainsFunc(u.Pools, hasActiveCalls) {
				busy = append(busy, u.Label)
			}
		}
		if len(busy) == 0 {
			_, err := fmt.Fprintln(out, "no call is left there")
			return err
		}
		if first {
			fmt.Fprintf(out, "waiting for the calls at %s\n", plaintext.CleanLine(strings.Join(busy, ", ")))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("calls are left at %s: they go on, and the mode stays", plaintext.CleanLine(strings.Join(busy, ", ")))
		case <-time.After(idlePollInterval):
		}
	}
}

func hasActiveCalls(p upstreams.PoolStatus) bool { return p.Active > 0 }
