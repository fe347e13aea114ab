package bench

import (
	"context"
	"fmt"
)

// flushPages are the calls by which engines empty their prefix caches: vLLM's (in its development mode only) and SGLang's.
var flushPages = map[string]string{"vllm": "/reset_prefix_cache", "sglang": "/flush_cache"}

// flush empties the caches of the engines: those of --engine-url, else the targets themselves. What cannot be done is a usage error,
// for the run would measure a cache that it was told not to.
func (r *run) flush(ctx context.Context) error {
	list := r.targets
	if len(r.s.Engine) > 0 {
		list = nil
		for _, u := range r.s.Engine {
			_, base := engineName(u)
			t, err := newTarget(base, r.s.Insecure)
			if err != nil {
				return err
			}
			t.clock, t.headers = r.clock, r.targets[0].headers
			list = append(list, t)
		}
	}
	for _, t := range list {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) flush(ctx context.Context) error {
	engine := t.engine(ctx)
	page := flushPages[engine]
	switch {
	case engine == "edge":
		return usageError("--flush-cache: %s is an edge: name the engines behind it by --engine-url", t.base)
	case page == "":
		return usageError("--flush-cache: %s (%s) has no call that empties its cache: restart it, or leave the flag out, since prompts begin with a mark that no cache knows", t.base, orText(engine, "an engine that is not known"))
	}
	p, err := t.fetch(ctx, t.path+page, []byte{}, t.headers)
	switch {
	case err != nil:
		return usageError("--flush-cache: %s%s: %s", t.base, page, reason(err))
	case p.status == 404 && engine == "vllm":
		return usageError("--flush-cache: %s%s is not there: vLLM has it when it runs with VLLM_SERVER_DEV_MODE=1", t.base, page)
	case p.status != 200:
		return usageError("--flush-cache: %s%s: status %d", t.base, page, p.status)
	}
	return nil
}

// flushBetween empties the caches between two stages. That the run goes on when it fails is told by an event.
func (r *run) flushBetween(ctx context.Context) {
	at := float64(r.clock.now()) / 1e9
	e := Event{AtS: at, StartS: at, Action: "flush_cache"}
	if err := r.flush(ctx); err != nil {
		e.Error = fmt.Sprint(err)
	}
	e.EndS = float64(r.clock.now()) / 1e9
	r.flushed = append(r.flushed, e)
}
