package generate

import (
	"math"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// decodePriority reads the request's priority in the queue. vLLM serves lower numbers first, and
// uses 0 for a request without a priority. SGLang serves higher numbers first, and requests without
// a priority last. If the queue is not ordered by priority, a simulated vLLM refuses priorities, as
// the V0 engine of vLLM does. The current vLLM ignores them, but that would hide mistakes in the
// edge.
func (d *Decoder) decodePriority(v *fastjson.Value, q *Request) *profile.APIError {
	p := v.Get("priority")
	given := p != nil && p.Type() != fastjson.TypeNull
	if !d.Profile.MatchesAny("vllm sglang") {
		return nil
	}
	number := 0
	if given {
		n, err := p.Int()
		if err != nil {
			return profile.InvalidParam("priority", "Input should be a valid integer: priority")
		}
		number = n
	}
	switch {
	case !d.Priorities && number != 0 && d.Profile.MatchesAny("vllm"):
		return profile.InvalidParam("", "Got priority %d but Priority scheduling is not enabled.", number)
	case !d.Priorities:
	case !d.Profile.MatchesAny("sglang"):
		q.Prompt.Priority = number
	case given:
		q.Prompt.Priority = -number
	default:
		q.Prompt.Priority = math.MaxInt
	}
	return nil
}
