package messages

import (
	"cmp"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// checkStrict rejects members that are unknown, belong to another dialect, or have no effect. It
// accepts the members of the contract, and in addition thinking and output_config, which the edge
// translates without loss.
func (r *Request) checkStrict() error {
	for it := r.doc.Root().Iter(); it.Next(); {
		if requestMemberNames.Index(it.Key()) < 0 && !requestsUsual(it.Key(), it.Value()) {
			// The error does not repeat the name, because it comes from the client.
			return apierr.Invalid("", apierr.CodeUnsupportedParameter,
				"Unsupported parameter: the request has a member that this service does not know.")
		}
	}
	for i, name := range passedMemberNames {
		if chat.IsGiven(r.members[memberFrequencyPenaltyIndex+i]) {
			return chat.UnsupportedError(name, "is not a member of this dialect's requests: leave it out").Err()
		}
	}
	for _, name := range r.info.dropped.Names() {
		if member, ok := strings.CutPrefix(name, "member:"); ok {
			return chat.UnsupportedError(cmp.Or(memberPaths[member], member), "has no effect here: leave it out").Err()
		}
	}
	return nil
}

// memberPaths has the paths of members that are not at the top level.
var memberPaths = map[string]string{"budget_tokens": "thinking.budget_tokens"}

// requestsUsual reports whether a member that has no effect requests what happens anyway.
func requestsUsual(k jsonx.Key, v jsonx.Value) bool {
	for _, m := range effectlessMembers {
		if k.Equals(m.name) {
			return m.has(v)
		}
	}
	return false
}
