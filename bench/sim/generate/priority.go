package generate

import (
	"math"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// decodePriority reads the request's priority in the queue. vLLM uses 0 for a request without one,
// and serves lower numbers first; SGLang serves higher ones first, and those without a number last.
// A vLLM without an ordered queue refuses numbers, as its first engine did; the present one ignores
// them, which would hide more.
func (d *Decoder) decodePriority(v *fastjson.Value, q *Request) *profile.APIError {
	p := v.Get("priority")
	given := p != nil && p.Type() != fastjson.TypeNull
	if !d.Profile.Is("vllm sglang") {
		return nil
	}
	number := 0
	if given {
		n, err := p.Int()
		if err != nil {
			return profile.Invalid("priority", "Input should be a valid integer: priority")
		}
		number = n
	}
	switch {
	case !d.Priorities && number != 0 && d.Profile.Is("vllm"):
		return profile.Invalid("", "Got priority %d but Priority scheduling is not enabled.", number)
	case !d.Priorities:
	case !d.Profile.Is("sglang"):
		q.Prompt.Priority = number
	case given:
		q.Prompt.Priority = -number
	default:
		q.Prompt.Priority = math.MaxInt
	}
	return nil
}
