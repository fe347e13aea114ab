package chat

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// Limits is what Check holds a request to: the catalog entry of its model and the settings of the edge. The zero value
// limits nothing. It is only read, so one Limits serves all requests for a model at once.
type Limits struct {
	// Strict refuses what is otherwise made to fit: a token limit that is too high, and the effort "minimal".
	Strict bool
	// ContextLength is in tokens; 0: not known.
	ContextLength int
	// MaxOutputLength is the greatest token limit; 0: none.
	MaxOutputLength int
	// Efforts are the reasoning efforts that the model offers; nil: not known, none is refused.
	Efforts []string
	// LowerEffort makes an effort that the model does not offer the nearest lower one, as the dialects other than chat
	// want it, instead of an error.
	LowerEffort bool
	// Features are the optional features that the model offers (FeatureTools and so on); nil: not known, none is refused.
	Features []string
	// InputModalities are text, image and so on; nil: not known, none is refused.
	InputModalities []string
	// Vision bounds requests with images; nil: no bounds.
	Vision *VisionLimits
	// ImageHosts are the hosts that https URLs of images may name, exactly or as *.example.com; empty: any.
	ImageHosts []string
	// Refuse are names of top-level members that steer an engine and are not for clients; a trailing * matches any rest, and
	// outer.inner is a member of the object that outer names.
	// They are compared without regard to case, as some engines read them. Names that begin with x- are always refused.
	Refuse []string
}

// VisionLimits bounds requests with images; 0 is no bound.
type VisionLimits struct {
	MaxPixels     int // of one image
	MaxTokens     int // of the completion
	ContextLength int // in tokens, when it is smaller than the model's
}

// The features of a model that a request may need.
const (
	FeatureTools             = "tools"
	FeatureStructuredOutputs = "structured_outputs"
	FeatureJSONMode          = "json_mode" // enough for response_format json_object
	FeatureReasoning         = "reasoning"
)

const modalityImage = "image"

// Check applies the rules that depend on the model to a decoded request. It lowers MaxTokens and Effort where the limits
// say so, and finds the limit that an engine is told when the client gave none (TokenLimit); AppendUpstream then writes these
// values. The error is an *apierr.Error. Checking twice is harmless.
//
// A prompt is never measured: it is refused for its length only when the token limit alone is larger than the context.
// All else is left to the engine, which can count.
func (r *Request) Check(l *Limits) error {
	if err := RefuseMembers(r.doc.Root(), l.Refuse); err != nil {
		return err
	}
	for _, rule := range checkRules {
		if e := rule(r, l); e != nil {
			return e.Err()
		}
	}
	return nil
}

var checkRules = [...]func(*Request, *Limits) *Invalid{
	(*Request).checkFeatures,
	(*Request).checkImages,
	(*Request).checkEffort,
	(*Request).checkTokenLimit,
}

// RefuseMembers refuses an object with a member that steers an engine: Limits.Refuse says which. The error names the member
// where it is known, otherwise the pattern: a word of the client's it never repeats.
func RefuseMembers(v jsonx.Value, refuse []string) error {
	look := beginningsOf(refuse)
	for it := v.Iter(); it.Next(); {
		name := nameOf(it.Key())
		if !look.has(name) {
			continue
		}
		if pattern, found := matchName(name, refuse); found {
			return steers(spelt(it.Key().Raw(), pattern))
		}
		if pattern := matchInside(name, it.Value(), refuse); pattern != "" {
			return steers(pattern)
		}
	}
	return nil
}

// beginnings is a set of the first two letters of names, and of others by chance. Every member of every request is looked up in
// it, and nearly none is in it.
type beginnings uint64

// beginningsOf returns those of all names that a pattern, or controlMembers, can match.
func beginningsOf(patterns []string) beginnings {
	set := beginning(controlMembers[0], controlMembers[1])
	for _, p := range patterns {
		if len(p) < 2 || p[1] == '*' {
			return ^beginnings(0)
		}
		set |= beginning(p[0], p[1])
	}
	return set
}

// beginning is the bit of two letters in any case, which differs in one of theirs.
func beginning(a, b byte) beginnings { return 1 << ((31*uint(a|0x20) + uint(b|0x20)) % 64) }

// has reports whether a name may begin as one of the set.
func (set beginnings) has(name []byte) bool {
	return len(name) < 2 || set&beginning(name[0], name[1]) != 0
}

// matchInside returns the pattern of the form outer.inner that a member of the object v matches, which goes by that name; ""
// when there is none.
func matchInside(name []byte, v jsonx.Value, refuse []string) (pattern string) {
	if !v.IsObject() {
		return ""
	}
	for _, p := range refuse {
		outer := len(name)
		if len(p) <= outer || p[outer] != '.' || !equalFold(name, p[:outer]) {
			continue
		}
		for it := v.Iter(); it.Next(); {
			if matches(nameOf(it.Key()), p[outer+1:]) { // no control members: only at the top do gateways read those
				return p
			}
		}
	}
	return ""
}

// RefuseName is RefuseMembers for a name without escapes, such as that of a field of a form.
func RefuseName(name string, refuse []string) error {
	if pattern, found := matchName([]byte(name), refuse); found {
		return steers(spelt([]byte(name), pattern))
	}
	return nil
}

func steers(name string) error {
	return apierr.Invalid(name, apierr.CodeUnsupportedParameter,
		"Unsupported parameter: %s. It steers the engine and is not accepted from clients.", name)
}

// controlMembers are what gateways and engines use for headers in the clothes of a member.
const controlMembers = "x-*"

// nameOf is a name as engines compare it, but for its case: without escapes, and with the two letters outside ASCII that fold
// into it.
func nameOf(k jsonx.Key) []byte {
	name := k.Raw()
	if !isPlain(name) {
		name = k.AppendTo(nil)
		name = bytes.ReplaceAll(bytes.ReplaceAll(name, []byte("\u017f"), []byte("s")), []byte("\u212a"), []byte("k"))
	}
	return name
}

// matchName returns the pattern that the name matches.
func matchName(name []byte, refuse []string) (pattern string, found bool) {
	if matches(name, controlMembers) {
		return controlMembers, true
	}
	for _, p := range refuse {
		if matches(name, p) {
			return p, true
		}
	}
	return "", false
}

func matches(name []byte, pattern string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return hasFoldPrefix(name, prefix)
	}
	return equalFold(name, pattern)
}

// isPlain reports whether a name is ASCII without escapes.
func isPlain(name []byte) bool {
	for _, c := range name {
		if c >= 0x80 || c == '\\' {
			return false
		}
	}
	return true
}

func (r *Request) checkFeatures(l *Limits) *Invalid {
	if l.Features == nil {
		return nil
	}
	offers := func(feature string) bool { return slices.Contains(l.Features, feature) }
	switch {
	case r.HasTools && !offers(FeatureTools):
		return Unsupported("tools", "cannot be used: the model does not offer tool calling")
	case r.StructuredOutput && !offers(FeatureStructuredOutputs) && (r.schema || !offers(FeatureJSONMode)):
		return Unsupported("response_format", "must be text or absent: the model does not offer structured outputs")
	case l.Efforts == nil && r.Effort != "" && r.Effort != "none" && !offers(FeatureReasoning):
		if !l.LowerEffort {
			return Unsupported(r.effortParam(), "must be none or absent: the model does not offer reasoning")
		}
		r.Effort = ""
	}
	return nil
}

func (r *Request) checkEffort(l *Limits) *Invalid {
	if r.minimal && l.Strict {
		return Unsupported(r.effortParam(), "must be one of none, low, medium, high and xhigh")
	}
	if l.Efforts == nil || r.Effort == "" || slices.Contains(l.Efforts, r.Effort) {
		return nil
	}
	if !l.LowerEffort {
		if len(l.Efforts) == 0 {
			return Unsupported(r.effortParam(), "cannot be used: the model offers no reasoning effort")
		}
		return Unsupported(r.effortParam(), "must be one that the model offers: "+strings.Join(l.Efforts, ", "))
	}
	r.Effort = LowerEffort(l.Efforts, r.Effort)
	return nil
}

// effortParam returns the path of the member that gave the effort.
func (r *Request) effortParam() string {
	if Given(r.members[memberReasoningEffort]) {
		return "reasoning_effort"
	}
	return "reasoning.effort"
}

func (r *Request) checkImages(l *Limits) *Invalid {
	if len(r.Images) > 0 && l.InputModalities != nil && !slices.Contains(l.InputModalities, modalityImage) {
		return Unsupported(r.Images[0].Param(), "cannot be used: the model does not take images")
	}
	for i := range r.Images {
		m := &r.Images[i]
		if v := l.Vision; v != nil && v.MaxPixels > 0 && m.Pixels() > int64(v.MaxPixels) {
			return WrongValue(m.Param(), "has "+strconv.FormatInt(m.Pixels(), 10)+" pixels; the model takes at most "+
				strconv.Itoa(v.MaxPixels)+". Send a smaller image")
		}
		if m.Host != nil && len(l.ImageHosts) > 0 && !hostAllowed(l.ImageHosts, m.Host) {
			return WrongValue(m.Param(), "names a host that images are not taken from; send the image as a data URL")
		}
	}
	return nil
}

func (r *Request) checkTokenLimit(l *Limits) *Invalid {
	bound, context := l.MaxOutputLength, l.ContextLength
	if v := l.Vision; v != nil && len(r.Images) > 0 {
		bound, context = smaller(bound, v.MaxTokens), smaller(context, v.ContextLength)
	}
	param := "max_tokens"
	if Given(r.members[memberMaxCompletionTokens]) {
		param = "max_completion_tokens"
	}
	if bound > 0 && r.MaxTokens > bound {
		if l.Strict {
			return WrongValue(param, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
		}
		r.MaxTokens = bound
	}
	r.bound, r.told = bound, -1
	if r.MaxTokens < 0 && bound > 0 {
		r.told = ToldLimit(bound, context, r.EstimateTokens(DenseText))
	}
	if l.Strict {
		if e := RefuseAliases(r.doc.Root(), bound, ""); e != nil {
			return e
		}
	}
	if context > 0 && r.MaxTokens > context {
		return &Invalid{param, apierr.CodeContextLength, "alone is larger than the context of the model: " +
			strconv.Itoa(r.MaxTokens) + " tokens > " + strconv.Itoa(context) + " maximum"}
	}
	return nil
}

// smaller returns the smaller of two bounds, of which 0 is none.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
