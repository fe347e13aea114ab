package sim

import (
	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// servePrefillOnlyWork answers requests for scoring, classification, pooling, moderation and
// detokenization. It invents one number for each input.
func servePrefillOnlyWork(x *exchange, kind string) {
	p := parserPool.Get()
	defer parserPool.Put(p)
	v, q, ok := decodeSmallRequest(x, p)
	if !ok {
		return
	}
	in, member := prefillOnlyInput(v, kind)
	if in == nil {
		x.replyError(*profile.InvalidParam(member, "Field required: %s", member))
		return
	}
	raw := in.MarshalTo(nil)
	q.Prompt.Add(raw)
	out := nonGeneratingReplyData{Family: x.p.Family, Model: q.Model, ID: profile.Hex32(x.e.nextID()), Created: unixNow()}
	switch list := in.GetArray(); kind {
	case "detokenize":
		for i, t := range list {
			out.Items = append(out.Items, prefillReplyItem{Index: i, Text: "w" + t.String()})
		}
	default:
		for i := range max(len(list), 1) {
			out.Items = append(out.Items, prefillReplyItem{Index: i, Text: encodeVector(embedText(raw, embeddingDimensions), ""), Score: 0.75})
		}
	}
	out.answer(x, kind, &q.Prompt)
}

// prefillOnlyInput returns the input of a request and the name of its member. It uses the first
// member in the request that is permitted for the kind.
func prefillOnlyInput(v *fastjson.Value, kind string) (in *fastjson.Value, name string) {
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
