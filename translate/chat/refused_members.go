package chat

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// RefusedMembers is a set of top-level members that steer an engine and that clients must not set.
// Matching ignores case, because some engines do. Names that start with x- are always rejected,
// because gateways and engines read them as headers.
//
// A nil or zero RefusedMembers rejects only names that start with x-. A RefusedMembers is
// immutable.
type RefusedMembers struct {
	byFirstByte  [32][]string // index: low five bits of the first byte, regardless of case
	nested       []nestedNamePattern
	allowedNames []string
	hosted       bool
	rejectsUsual bool              // the set may reject some of usualMemberSet
	filter       *memberNameFilter // covers all rejected names; if nil, only control members are rejected
}

// memberNameFilter indexes names by bits of their first two bytes. One look-up excludes most other
// names. False positives are possible.
type memberNameFilter [32]uint32 // index: five bits of the first byte; bit: five bits of the second

func (n *memberNameFilter) add(pattern string) {
	first := n[:]
	if pattern != "" && pattern[0] != '*' {
		first = n[pattern[0]&31:][:1]
	}
	second := ^uint32(0)
	if len(pattern) > 1 && pattern[0] != '*' && pattern[1] != '*' {
		second = 1 << (pattern[1] & 31)
	}
	for i := range first {
		first[i] |= second
	}
}

// mayContain returns true for any name that is short, not ASCII, or spelt with escapes.
func (n *memberNameFilter) mayContain(k jsonx.Key) bool {
	name := k.Raw()
	return !k.IsPlainASCII() || len(name) < 2 || n[name[0]&31]>>(name[1]&31)&1 != 0
}

var controlNameFilter = func() *memberNameFilter {
	n := new(memberNameFilter)
	n.add(controlNamePattern)
	return n
}()

type nestedNamePattern struct{ pattern, outer, inner string }

const controlNamePattern = "x-*"

// NewRefusedMembers returns the set of names that match one of the patterns. A trailing * matches
// any suffix. outer.inner means the member inner of the object outer.
func NewRefusedMembers(patterns ...string) *RefusedMembers {
	r := new(RefusedMembers)
	begun := *controlNameFilter
	r.filter = &begun
	for _, p := range patterns {
		begun.add(p)
		if outer, inner, nested := strings.Cut(p, "."); nested {
			r.nested = append(r.nested, nestedNamePattern{p, outer, inner})
		}
		if p != "" && p[0] != '*' {
			r.byFirstByte[p[0]&31] = append(r.byFirstByte[p[0]&31], p)
			continue
		}
		for i := range r.byFirstByte {
			r.byFirstByte[i] = append(r.byFirstByte[i], p)
		}
	}
	r.rejectsUsual = refusesAny(r, usualMemberSet)
	return r
}

func refusesAny(r *RefusedMembers, set uint64) bool {
	for ; set != 0; set &= set - 1 {
		name := []byte(memberNames[bits.TrailingZeros64(set)])
		if _, found := r.match(name); found {
			return true
		}
		if slices.ContainsFunc(r.nested, func(in nestedNamePattern) bool { return matchesPattern(name, in.outer) }) {
			return true
		}
		if r.hosted && slices.ContainsFunc(harmfulHostedMembers[:], func(m harmfulHostedMember) bool { return equalFold(name, m.name) }) {
			return true
		}
	}
	return false
}

func (r *RefusedMembers) refusesUsual() bool { return r != nil && r.rejectsUsual }

// WithAllowed returns a copy of r that accepts the given names, which may have the form
// outer.inner. Names that start with x- are still rejected.
func (r *RefusedMembers) WithAllowed(names ...string) *RefusedMembers {
	if r == nil || len(names) == 0 {
		return r
	}
	allowing := *r
	allowing.allowedNames = slices.Concat(r.allowedNames, names)
	allowing.nested = slices.DeleteFunc(slices.Clone(r.nested), func(in nestedNamePattern) bool {
		return slices.Contains(names, in.pattern)
	})
	return &allowing
}

func (r *RefusedMembers) allows(name []byte) bool {
	return slices.ContainsFunc(r.allowedNames, func(allowed string) bool { return equalFold(name, allowed) })
}

// CheckMembers returns an error if the object v has a member that r rejects. The error is an
// *apierr.Error without client text.
func (r *RefusedMembers) CheckMembers(v jsonx.Value) error {
	begun := controlNameFilter
	if r != nil && r.filter != nil {
		begun = r.filter
	}
	for it := v.Iter(); it.Next(); {
		if !begun.mayContain(it.Key()) {
			continue // true for nearly every name
		}
		if pattern, found := r.matchKey(it.Key()); found {
			return steeringError(knownSpelling(it.Key().Raw(), pattern))
		}
		if pattern := r.findNestedName(it.Key(), it.Value()); pattern != "" {
			return steeringError(pattern)
		}
		if err := r.checkHostedMember(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// CheckName does the same as CheckMembers for the name of a form field.
func (r *RefusedMembers) CheckName(name string) error {
	if pattern, found := r.match([]byte(name)); found {
		return steeringError(knownSpelling([]byte(name), pattern))
	}
	return nil
}

func steeringError(name string) error {
	return apierr.Invalid(name, apierr.CodeUnsupportedParameter,
		"Unsupported parameter: %s. It steers the engine and is not accepted from clients.", name)
}

func (r *RefusedMembers) matchKey(k jsonx.Key) (pattern string, found bool) {
	return r.match(decodedName(k))
}

func (r *RefusedMembers) match(name []byte) (pattern string, found bool) {
	if matchesPattern(name, controlNamePattern) {
		return controlNamePattern, true
	}
	// For an empty name, any byte will do: a pattern that matches it is stored under every byte.
	first := byte(0)
	if len(name) > 0 {
		first = name[0]
	}
	if r == nil {
		return "", false
	}
	for _, p := range r.byFirstByte[first&31] {
		if matchesPattern(name, p) && !r.allows(name) {
			return p, true
		}
	}
	return "", false
}

func (r *RefusedMembers) findNestedName(k jsonx.Key, v jsonx.Value) (pattern string) {
	if r == nil || len(r.nested) == 0 || !v.IsObject() {
		return ""
	}
	name := decodedName(k)
	for _, in := range r.nested {
		if !matchesPattern(name, in.outer) {
			continue
		}
		for it := v.Iter(); it.Next(); {
			// in.pattern is the name with which WithAllowed would accept this member.
			if matchesPattern(decodedName(it.Key()), in.inner) {
				return in.pattern
			}
		}
	}
	return ""
}

// decodedName decodes the escapes in a name, and replaces the two non-ASCII letters that fold to
// ASCII.
func decodedName(k jsonx.Key) []byte {
	name := k.Raw()
	if !isPlain(name) {
		name = k.AppendTo(nil)
		name = bytes.ReplaceAll(bytes.ReplaceAll(name, []byte("\u017f"), []byte("s")), []byte("\u212a"), []byte("k"))
	}
	return name
}

func isPlain(name []byte) bool {
	return !slices.ContainsFunc(name, func(c byte) bool { return c >= 0x80 || c == '\\' })
}

func matchesPattern(name []byte, pattern string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return hasFoldPrefix(name, prefix)
	}
	return equalFold(name, pattern)
}

// engineMembers lists members of chat requests that engines read but that no dialect defines. All
// dialects pass them on. The list omits members that would reveal reasoning or special tokens in
// the text.
var engineMembers = []string{
	"bad_words", "dry_allowed_length", "dry_base", "dry_multiplier", "dry_penalty_last_n",
	"dry_sequence_breakers", "dynatemp_exponent", "dynatemp_range", "ebnf", "grammar", "guided_choice",
	"guided_grammar", "guided_json", "guided_regex", "ignore_eos", "include_stop_str_in_output",
	"json_schema", "length_penalty", "min_keep", "min_tokens", "mirostat", "mirostat_eta",
	"mirostat_tau", "regex", "repeat_last_n", "repeat_penalty", "samplers", "stop_token_ids",
	"structured_outputs", "thinking_budget_tokens", "thinking_token_budget", "top_a", "top_n_sigma",
	"typical", "typical_p", "xtc_probability", "xtc_threshold",
}

// IsPassedOn reports whether a member that a dialect does not define is passed on to the engine.
func (r *RefusedMembers) IsPassedOn(k jsonx.Key) bool {
	if _, known := slices.BinarySearch(engineMembers, string(k.Name())); known {
		return true
	}
	return r != nil && len(r.allowedNames) > 0 && r.allows(decodedName(k))
}

type harmfulHostedMember struct {
	name        string
	allowed     []string // allowed values; may be nil
	allowedText string   // describes the allowed values in the error
}

// harmfulHostedMembers lists members that do harm at a hosted engine. Some let a client spend the
// operator's money. Others make the engine store the conversation or share it with a third party.
// They are rejected only if the model has a hosted engine, because other engines ignore them or
// interpret them differently. null counts as absent.
var harmfulHostedMembers = [...]harmfulHostedMember{
	{"store", []string{"false"}, "false or absent: nothing of a conversation is kept at a hosted engine"},
	{"prompt_cache_retention", []string{`"in_memory"`, `"in-memory"`}, "in_memory or absent: nothing of a conversation is kept at a hosted engine"},
	{"service_tier", []string{`"auto"`, `"default"`, `"flex"`, `"standard_only"`}, "auto, default, flex or absent: the operator chooses a dearer tier of a hosted engine"},
	{"speed", []string{`"standard"`}, "standard or absent: the operator chooses a dearer tier of a hosted engine"},
	{"inference_geo", nil, "absent: the operator chooses where a hosted engine runs"},
	{"web_search_options", nil, "absent: the operator chooses whether a hosted engine searches the web"},
	{"search_parameters", nil, "absent: the operator chooses whether a hosted engine searches the web"},
	{"search_settings", nil, "absent: the operator chooses whether a hosted engine searches the web"},
	{"enable_search", []string{"false"}, "false or absent: the operator chooses whether a hosted engine searches the web"},
	{"compound_custom", nil, "absent: the operator chooses the tools and models of a hosted engine"},
	{"extra_body", nil, "absent: it stands for members that are checked by their own names"},
	{"extra_headers", nil, "absent: no header of a client's reaches an engine"},
}

// ForHostedEngine returns a copy of r that also rejects harmfulHostedMembers.
func (r *RefusedMembers) ForHostedEngine() *RefusedMembers {
	hosted := new(RefusedMembers)
	if r != nil {
		*hosted = *r
	}
	begun := *controlNameFilter
	if hosted.filter != nil {
		begun = *hosted.filter
	}
	for i := range harmfulHostedMembers {
		begun.add(harmfulHostedMembers[i].name)
	}
	hosted.hosted, hosted.filter = true, &begun
	hosted.rejectsUsual = refusesAny(hosted, usualMemberSet)
	return hosted
}

// checkHostedMember rejects a member that clients must not send to hosted engines. The error
// contains the table's spelling of the name, not the client's.
func (r *RefusedMembers) checkHostedMember(k jsonx.Key, v jsonx.Value) error {
	i := r.findHostedMember(k, v)
	if i < 0 {
		return nil
	}
	m := &harmfulHostedMembers[i]
	return apierr.Invalid(m.name, apierr.CodeUnsupportedParameter, "%s must be %s.", m.name, m.allowedText)
}

// findHostedMember returns the index in harmfulHostedMembers of the member k if its value is not
// allowed, otherwise -1.
func (r *RefusedMembers) findHostedMember(k jsonx.Key, v jsonx.Value) int {
	if r == nil || !r.hosted || v.Kind() == jsonx.Null {
		return -1
	}
	name := decodedName(k)
	// In a speech request, speed is the tempo of the voice.
	if v.Kind() == jsonx.Number && equalFold(name, "speed") {
		return -1
	}
	for i := range harmfulHostedMembers {
		if m := &harmfulHostedMembers[i]; equalFold(name, m.name) && !slices.Contains(m.allowed, string(v.Raw())) && !r.allows(name) {
			return i
		}
	}
	return -1
}
