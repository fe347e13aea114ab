package chat

import (
	"strconv"

	"penstock/translate/jsonx"
)

// This file is what the readers of other dialects share: an engine that is let speak Messages or
// Responses itself is read as if it had spoken chat, so that whatever comes behind (the writers,
// the counts, the end of a stream) is the same for all.

// NativeRequest says what of a request in another dialect is changed for an engine that speaks that
// dialect itself.
type NativeRequest struct {
	Served    string          // the name that the engine knows the model by
	Stream    bool            // ask for events even if the client wants one answer
	MaxTokens int             // the checked token limit, or the model's own; -1: none
	Bound     int             // the model's own, that other names of it are lowered to; 0: none
	Effort    string          // the checked effort; empty: not given
	Refuse    *RefusedMembers // members that steer an engine; the request goes without them
	Priority  Priority        // of the request in the engine's queue

	Model            []byte // the name that the client wrote
	ReasoningHistory string // see ModelRules
	Opener           Opener // of the sealed reasoning in the history
}

// Opener opens sealed reasoning that a request for a model brings back.
type Opener interface {
	// Open appends the text, the contents of a JSON string, and reports whether blob is one that this
	// client was given for the model.
	Open(dst, model, blob []byte) ([]byte, bool)
}

// Edit notes the changes that are the same in every dialect: model and stream, and the members that
// steer an engine, or would have it generate answers that nobody sees.
func (n *NativeRequest) Edit(edits *jsonx.Edits, root jsonx.Value) {
	edits.Set(root.Get("model"), jsonx.AppendStringS(nil, n.Served))
	n.Priority.Add(edits, root)
	for it := root.Iter(); it.Next(); {
		if n.Priority.is(it.Key()) {
			continue
		}
		if _, found := n.Refuse.find(it.Key()); found {
			edits.Delete(it.Value())
		} else if pattern := n.Refuse.findInside(it.Key(), it.Value()); pattern != "" {
			edits.Delete(it.Value())
		} else if n.Refuse.findHosted(it.Key(), it.Value()) >= 0 {
			edits.Delete(it.Value())
		} else if i := limitIndex.Index(it.Key()); i >= 0 && limitNames[i].is == limitChoices {
			edits.Delete(it.Value())
		}
	}
	if !n.Stream {
		return
	}
	if v := root.Get("stream"); v.Exists() {
		edits.Set(v, textTrue)
	} else {
		edits.Add(root, []byte(`"stream":true`))
	}
}

// Limit notes that the member name of root, the token limit, is the checked one, in digits, and
// lowers its other names. own is the one that the dialect has for it.
func (n *NativeRequest) Limit(edits *jsonx.Edits, root jsonx.Value, own string) {
	if bound := n.Bound; bound > 0 || n.MaxTokens >= 0 {
		if n.MaxTokens >= 0 {
			bound = smaller(bound, max(n.MaxTokens, 1))
		}
		overBound(root, bound, "", func(path string, v jsonx.Value) {
			if path != own {
				edits.Set(v, strconv.AppendInt(nil, int64(bound), 10))
			}
		})
	}
	if n.MaxTokens < 0 {
		return
	}
	digits := strconv.AppendInt(nil, int64(n.MaxTokens), 10)
	if v := root.Get(own); v.Exists() {
		edits.Set(v, digits)
	} else {
		edits.Add(root, append([]byte(`"`+own+`":`), digits...))
	}
}

// Lower notes that v, an effort as the client gave it, is the checked one. A word of the dialect's
// own stays where it means the checked one: max is xhigh, minimal is low.
func (n *NativeRequest) Lower(edits *jsonx.Edits, v jsonx.Value) {
	switch {
	case !v.IsString(), n.Effort == "", v.EqualText(n.Effort):
	case v.EqualText(effortMax) && n.Effort == "xhigh", v.EqualText(effortMinimal) && n.Effort == "low":
	default:
		edits.Set(v, jsonx.AppendStringS(nil, n.Effort))
	}
}
