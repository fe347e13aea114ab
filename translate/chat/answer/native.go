package answer

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// The errors of native answers that break the form of any JSON dialect.
var (
	errNativeForm   = &translate.BadAnswer{Reason: "an event that is no JSON object"}
	errNativeMember = &translate.BadAnswer{Reason: translate.DuplicateMember}
)

// ParseNative parses an event, or a whole answer, of an engine in another dialect. The error is a
// *BadAnswer.
func ParseNative(doc *jsonx.Doc, data []byte, record int) error {
	if doc.Parse(data, jsonx.Options{Record: record}) != nil || !doc.Root().IsObject() {
		return errNativeForm
	}
	return nil
}

// NativeMembers finds the members of those names in v. The error is a *BadAnswer.
func NativeMembers(v jsonx.Value, names *jsonx.Names, members []jsonx.Value) error {
	if names.Fields(v, members) != nil {
		return errNativeMember
	}
	return nil
}

// NativeText returns the contents of a string, nothing for any other value.
func NativeText(v jsonx.Value) []byte {
	if !v.IsString() {
		return nil
	}
	return v.Inside()
}

// NativeUsage makes counts of a native answer. cached is a part of prompt, reasoning of completion.
func NativeUsage(prompt, cached, completion, reasoning int) translate.Usage {
	u := translate.Usage{Prompt: prompt, Cached: cached, Completion: completion, Reasoning: reasoning, Known: true}
	u.Reconcile()
	return u
}
