package routing

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// describedProfile is an engine profile whose models page contains every field that a route uses.
var describedProfile = config.Engine{
	Name: "described", Names: config.ModelNamesListed,
	Health: config.EngineHealth{Path: "/v1/models"},
	Models: []config.EngineModelsPage{{Path: "/v1/models", List: "data", ID: "id", Context: []string{"context"}, Vision: "vision"}},
}

// probed returns a route to model m over engines that each respond with a models page, or with an
// error if the page is empty. It waits until every engine has been probed. Every deployment uses
// the same engine for m and for the alias n.
func probed(t *testing.T, pages ...string) *Route {
	t.Helper()
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := set.Close(ctx); err != nil {
			t.Errorf("a lease is left: %v", err)
		}
	})
	var ups []config.Upstream
	m := config.Model{ID: "m"}
	for i, page := range pages {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if page == "" || r.URL.Path != "/v1/models" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"data":[%s]}`, page)
		}))
		t.Cleanup(engine.Close)
		name := fmt.Sprint("u", i)
		ups = append(ups, config.Upstream{Name: name, URL: engine.URL, Engine: "described", Concurrency: config.Concurrency{Shared: 4}, Probe: config.Probe{Timeout: config.Duration(time.Minute)}})
		m.Deployments = append(m.Deployments, config.Deployment{Upstream: name}, config.Deployment{Upstream: name, Served: "n"})
	}
	p, err := set.PlanChanges(ups, []config.Model{m}, describedProfile)
	if err != nil {
		t.Fatal(err)
	}
	set.Commit(p)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set.WaitFirstProbes(ctx, p)
	return lookup(t, table(t, p, m), "m")
}

// TestFactsOfEngines checks that ContextLength and IsTextOnly consider only engines that may get
// calls. An engine counts once, even if the route uses more than one of its model names.
func TestFactsOfEngines(t *testing.T) {
	const (
		small = `{"id":"m","context":4096,"vision":true}`
		large = `{"id":"m","context":8192,"vision":true}`
		blind = `{"id":"m","context":8192,"vision":false}`
		mute  = `{"id":"m"}`
		under = `{"id":"n","context":2048,"vision":true}`
		other = `{"id":"x","context":1024,"vision":false}`
		down  = ""
	)
	for name, c := range map[string]struct {
		pages   []string
		ready   bool
		slots   int
		context int
		text    bool // expected result of IsTextOnly
	}{
		"one":                    {[]string{small}, true, 4, 4096, false},
		"the smaller one":        {[]string{large, small, large}, true, 12, 4096, false},
		"one says nothing":       {[]string{mute, large}, true, 8, 8192, false},
		"nobody says anything":   {[]string{mute, mute}, true, 8, 0, false},
		"one takes no images":    {[]string{small, blind}, true, 8, 4096, false},
		"one is down":            {[]string{large, down}, true, 4, 8192, false},
		"all are down":           {[]string{down, down}, false, 0, 0, false},
		"two names of one":       {[]string{small + "," + under}, true, 4, 2048, false},
		"the second name of one": {[]string{under}, true, 4, 2048, false},
		"the model is missing":   {[]string{other, large}, true, 4, 8192, false},
		"it is missing at all":   {[]string{other}, false, 0, 0, false},
		"text alone":             {[]string{blind}, true, 4, 8192, true},
		"text alone, or unknown": {[]string{blind, mute}, true, 8, 8192, false},
		"text alone, or absent":  {[]string{blind, other}, true, 4, 8192, true},
		"text alone, or down":    {[]string{blind, down}, true, 4, 8192, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, now := probed(t, c.pages...), time.Now()
			if got := r.IsReady(now); got != c.ready {
				t.Errorf("IsReady = %t, want %t", got, c.ready)
			}
			if got := r.PoolCapacity(upstreams.PoolText, now).Total; got != c.slots {
				t.Errorf("%d slots, want %d", got, c.slots)
			}
			if got := r.ContextLength(now); got != c.context {
				t.Errorf("context %d, want %d", got, c.context)
			}
			if got := r.IsTextOnly(); got != c.text {
				t.Errorf("text only %t", got)
			}
			lease, _, err := r.Acquire(&Query{Now: now})
			if (err == nil) != c.ready {
				t.Errorf("Acquire = %v, want success: %t", err, c.ready)
			}
			if err == nil {
				lease.Release(upstreams.OutcomeOK)
			}
		})
	}
}

// TestBytesPerToken checks that a model's bytes per token are learned from all of its engines,
// because the first engine may never serve a call.
func TestBytesPerToken(t *testing.T) {
	p := plan(t, upstream("a", 1), upstream("b", 1), upstream("c", 1))
	r := lookup(t, table(t, p, model("m", "", "a", "b", "c")), "m")
	if got := r.BytesPerToken(); got != 0 {
		t.Errorf("nobody knows: %v", got)
	}
	teach := func(name string, bytes int) {
		for range 500 {
			p.Upstream(name)[0].Averages.UpdateBytesPerToken(bytes, 100)
		}
	}
	teach("b", 200)
	if got := r.BytesPerToken(); math.Abs(got-2) > 0.01 {
		t.Errorf("one knows: %v", got)
	}
	teach("c", 300)
	if got := r.BytesPerToken(); math.Abs(got-2.5) > 0.01 {
		t.Errorf("two know: %v", got)
	}
}

// TestEngineForShortPromptsOnly checks that an engine that is reserved for short prompts does not
// lower the model's context length, and is excluded for longer prompts.
func TestEngineForShortPromptsOnly(t *testing.T) {
	r := probed(t, `{"id":"m","context":4096}`, `{"id":"m","context":8192}`)
	r.targets[0].maxPromptTokens, r.hasLengthLimits = 1000, true
	if got := r.ContextLength(time.Now()); got != 8192 {
		t.Errorf("context %d, want 8192", got)
	}
	for tokens, want := range map[int][]upstreams.ID{1000: nil, 1001: {r.targets[0].Upstream.ID()}} {
		if got := r.AppendTooShortUpstreams(nil, tokens); !slices.Equal(got, want) {
			t.Errorf("%d tokens: got %v, want %v", tokens, got, want)
		}
	}
}
