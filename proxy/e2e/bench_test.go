package e2e

import (
	"testing"

	"penstock/bench/load"
	"penstock/proxy/e2e/rig"
)

// TestBench checks that the load generator finds no fault in the edge's streams. It sends Messages
// and Responses in conversations with tools and images.
func TestBench(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for _, o := range []load.Options{
		{Mix: "chat:1,messages:1,responses:1", NumPrompts: 30},
		{Mix: "chat:1,messages:1,responses:1", NumPrompts: 30, NoStream: true},
		{Mix: "messages", NumPrompts: 4, NumTurns: 3, Tools: 2, Images: 1},
		{Mix: "responses", NumPrompts: 4, NumTurns: 3, Tools: 2, Images: 1},
	} {
		o.BaseURL, o.APIKey, o.Model, o.NoFloor = p.URL, p.Key, "sim", true
		o.MaxConcurrency, o.InputLen, o.OutputLen = []int{2}, "20", "40"
		r, _, err := load.Run(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := int(o.NumPrompts) * max(1, o.NumTurns)
		if r.Completed != want || len(r.Penstock.Total.StreamFaults) > 0 {
			t.Errorf("%s: %d of %d completed, errors %v, faults %v", o.Mix, r.Completed, want, r.Penstock.Total.Errors, r.Penstock.Total.StreamFaults)
		}
	}
}
