package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"penstock/upstreams/http1"
)

var errNoAnswer = errors.New("no answer")

// TestSlotsReported checks that an engine's slots are read from the first page that responds and
// contains them.
func TestSlotsReported(t *testing.T) {
	profile := mustProfile(t, "llamacpp")
	for name, c := range map[string]struct {
		answer http1.Page
		err    error
		want   int
	}{
		"told":                  {http1.Page{Status: 200, Body: []byte(`{"total_slots":3}`)}, nil, 3},
		"one":                   {http1.Page{Status: 200, Body: []byte(`{"total_slots":1}`)}, nil, 1},
		"none":                  {http1.Page{Status: 200, Body: []byte(`{"total_slots":0}`)}, nil, 0},
		"not told":              {http1.Page{Status: 200, Body: []byte(`{"slots":3}`)}, nil, 0},
		"no JSON":               {http1.Page{Status: 200, Body: []byte(`total_slots: 3`)}, nil, 0},
		"an error that has it":  {http1.Page{Status: 503, Body: []byte(`{"total_slots":3}`)}, nil, 0},
		"nobody answers":        {http1.Page{}, errNoAnswer, 0},
		"a page cut by a close": {http1.Page{Status: 200, Body: []byte(`{"total_slots":3}`)}, errNoAnswer, 0},
	} {
		get := func(context.Context, string, time.Duration) (http1.Page, error) { return c.answer, c.err }
		r := PageReader{get, profile, time.Second}
		if n, _, ok := r.ReadSlots(t.Context()); n != c.want || ok != (c.want > 0) {
			t.Errorf("%s: %d %t, want %d", name, n, ok, c.want)
		}
	}
}
