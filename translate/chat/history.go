package chat

import "penstock/translate/jsonx"

// ParseHistory is Doc.Parse for the body of a request. Where all that is wrong are halves of
// surrogate pairs in the conversation, they are replaced by U+FFFD in body itself, which stays as
// long: what an engine once said would otherwise end a conversation for good, because clients send
// it back with every turn. members are the members of the request that hold the conversation; none:
// nothing is replaced.
//
// It is done in string values, but not in names of tools, and in the keys of a tool call's input:
// elsewhere (models, other keys, schemas) a half is the client's own, and a replacement would mean
// something else.
func ParseHistory(d *jsonx.Doc, body []byte, o jsonx.Options, members ...string) error {
	err := d.Parse(body, o)
	if err == nil || len(members) == 0 || !jsonx.IsLone(err) {
		return err
	}
	loose := o
	loose.Paired, loose.Record = false, jsonx.DefaultMaxDepth
	if other := d.Parse(body, loose); other != nil {
		return other
	}
	for it := d.Root().Iter(); it.Next(); {
		for _, name := range members {
			if string(it.Key().Name()) == name {
				mendValues(body, it.Value())
			}
		}
	}
	return d.Parse(body, o)
}

// mendValues replaces halves in the strings within v, and in the input of a tool call in its keys,
// too: the model wrote them, and any member there is data.
func mendValues(body []byte, v jsonx.Value) {
	if v.Lone() {
		jsonx.MendLone(body[v.Start():v.End()])
	}
	for it := v.Iter(); it.Next(); {
		switch name := string(it.Key().Name()); {
		case v.IsObject() && name == "name":
		case v.IsObject() && name == "input":
			jsonx.MendLone(body[it.Value().Start():it.Value().End()])
		default:
			mendValues(body, it.Value())
		}
	}
}
