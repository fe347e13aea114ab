package sim

import (
	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// smallWork answers requests for scoring, classification, pooling, moderation and detokenization.
// It invents one number for each input.
func smallWork(x *exchange, kind string) {
	p := parsers.Get()
	defer parsers.Put(p)
	v, q, ok := decodeSmallRequest(x, p)
	if !ok {
		return
	}
	in, member := smallInput(v, kind)
	if in == nil {
		x.replyError(*profile.InvalidParam(member, "Field required: %s", member))
		return
	}
	raw := in.MarshalTo(nil)
	q.Prompt.Add(raw)
	out := small{Family: x.p.Family, Model: q.Model, ID: profile.Hex32(x.e.nextID()), Created: now()}
	switch list := in.GetArray(); kind {
	case "detokenize":
		for i, t := range list {
			out.Items = append(out.Items, smallItem{Index: i, Text: "w" + t.String()})
		}
	default:
		for i := range max(len(list), 1) {
			out.Items = append(out.Items, smallItem{Index: i, Text: encodeVector(embed(raw, dimensions), ""), Score: 0.75})
		}
	}
	out.answer(x, kind, &q.Prompt)
}

// smallInput returns the input of a request and the name of its member. It uses the first member in
// the request that is permitted for the kind.
func smallInput(v *fastjson.Value, kind string) (in *fastjson.Value, name string) {
	names := map[string][]string{
		"score": {"documents", "items", "data_2", "text_2"}, "detokenize": {"tokens"},
	}[kind]
	if names == nil {
		names = []string{"input", "messages"}
	}
	for _, name := range names {
		if in := v.Get(name); in != nil {
			return in, name
		}
	}
	return nil, names[0]
}
