package sim

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
)

// serveEnginePage serves one of the engine's pages. SGLang's health page takes a second, because it
// generates a token.
func serveEnginePage(x *exchange) {
	e := x.e
	path, model := x.req.path, x.req.queryParam("model")
	if strings.Contains(path, "health") || path == "/ping" {
		if !x.client.pause(x.p.Health) {
			return
		}
	}
	if x.p.Name == "llamacpp-router" && !strings.HasSuffix(path, "models") && !strings.HasSuffix(path, "health") {
		// the page belongs to the child that the query names
		_, known := e.resolveModel(model)
		switch {
		case model == "" && path == "/props":
			x.sendReply(e.pages.RenderPage("router", engineState(x)))
			return
		case model == "":
			x.replyError(profile.APIError{Status: 400, Message: "model name is missing from the request"})
			return
		case !known:
			x.replyError(x.p.UnknownModelError(model))
			return
		}
		x.child = true
	}
	x.sendReply(e.pages.RenderPage(path, engineState(x)))
}

func serveModelPage(x *exchange, name string) {
	for _, n := range *x.e.models.Load() {
		if n == name || x.p.Latest && n == name+":latest" {
			x.sendReply(x.e.pages.RenderPage("/v1/models/", engineState(x).Of(name)))
			return
		}
	}
	x.replyError(x.p.UnknownModelError(name))
}

// engineState returns the engine's current state for its pages.
func engineState(x *exchange) *pages.State {
	e := x.e
	running, waiting, _ := e.slots.RequestCounts()
	used, slots := e.slots.UsedTokensAndSlots()
	asked, hit := e.cache.LookupCounts()
	c, names := &e.counters, *e.models.Load()
	s := &pages.State{
		Profile: e.p, Variant: e.p.Name != e.p.Family, Models: names, Loaded: e.loaded.IsLoaded,
		Sick: e.unhealthy.Load(), Asleep: e.asleep.Load(),
		Query: x.req.query, Addr: e.Addr(), Created: e.started.Unix(),
		Started: e.started.UTC().Format(time.RFC3339Nano), Context: e.o.MaxModelLen, Slots: slots,
		Residents: max(1, e.o.Residents),
		Running:   running, Waiting: waiting, Used: used, UsedBlocks: used / scheduler.BlockTokens,
		KVSize: e.o.KVTokens, PrefillRate: e.o.PrefillRate, TokenRate: e.o.TokenRate, Speed: throughput(e, running),
		Requests: c.requests.Load(), Completed: c.completed.Load(), Aborted: c.aborted.Load(), Rejected: c.rejected.Load(),
		Generated: c.generated.Load(), Prompted: c.prompted.Load(), Cached: c.cached.Load(),
		Preempted: c.preempted.Load(), Steps: c.steps.Load(), CacheAsked: asked, CacheHit: hit,
		QueueTime: &e.times.queue, TTFT: &e.times.ttft, Total: &e.times.e2e,
	}
	// trtllm-serve reports only the iterations since the last query
	s.Idle = func() bool { return s.Generated == c.iterations.Swap(s.Generated) && running == 0 }
	if len(names) > 0 {
		s.Model = names[0]
	}
	adapters := *e.adapters.Load()
	s.Parent = func(model string) string {
		if slices.Contains(adapters, model) {
			return s.Model
		}
		return ""
	}
	if len(adapters) > 0 {
		s.Adapters, s.UsedAdapters = true, strings.Join(e.loaded.ModelsInUse(adapters), ",")
	}
	s.First, _ = e.resolveModel("")
	s.Sim, _ = e.resolveModel("sim")
	if s.KVSize == 0 {
		s.KVSize = cmp.Or(max(0, e.o.CacheTokens), max(1, slots*e.o.MaxModelLen))
	}
	s.KVBlocks = s.KVSize / scheduler.BlockTokens
	if asked > 0 {
		s.HitRate = float64(hit) / float64(asked)
	}
	return s
}
