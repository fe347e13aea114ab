package sim

import (
	"github.com/valyala/fastjson"

	"penstock/bench/sim/dialect"
	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
)

// native answers an engine's own endpoint for another dialect.
func native(x *exchange, d dialect.Kind) {
	e := x.e
	x.dialect = d
	text(x, "", func(v *fastjson.Value, q *generate.Request) *profile.APIError {
		blamesItself := e.p.Family == "llamacpp" && d == dialect.Messages
		if d == dialect.Messages && !blamesItself && !v.Exists("max_tokens") {
			return profile.Invalid("max_tokens", "max_tokens: Field required")
		}
		chat, err := dialect.ChatOf(d, v)
		if err == nil {
			again := parsers.Get()
			defer parsers.Put(again)
			if v, err = generate.Parse(again, chat); err == nil {
				err = decoderOf(x).Chat(v, q)
			}
		}
		if err != nil && blamesItself && err.Param == "messages" {
			err.Status = 500
		}
		return err
	})
}

// nativeError is an error as the dialect has it; false: the profile's own shape is it, on Responses
// too.
func nativeError(x *exchange, a profile.APIError) ([]byte, bool) {
	if x.dialect != dialect.Messages || x.p.Family == "llamacpp" {
		return nil, false
	}
	return dialect.MessagesError(x.p, a, x.e.nextID, pages.Tell), true
}
