package chat

import (
	"slices"
	"strconv"
	"strings"

	"penstock/translate/apierr"
)

// ModelRules are the rules that Check applies to a request: the catalog entry of its model and the
// settings of the edge. The zero value limits nothing. Check only reads them, so all requests for a
// model share one ModelRules.
type ModelRules struct {
	// Strict refuses what is otherwise made to fit: a token limit that is too high, for the model
	// or for its context, and the efforts "minimal" and "max". Nor does it take audio, video and
	// files.
	Strict bool
	// ContextLength is in tokens; 0: not known.
	ContextLength int
	// MaxOutputLength is the greatest token limit; 0: none.
	MaxOutputLength int
	// Efforts are the reasoning efforts that the model offers; nil: not known, none is refused.
	Efforts []string
	// LowerEffort makes an effort that the model does not offer the nearest lower one, as the
	// dialects other than chat want it, instead of an error.
	LowerEffort bool
	// Features are the optional features that the model offers (FeatureTools and so on); nil: not
	// known, none is refused.
	Features []string
	// InputModalities are text, image and so on; nil: not known, none is refused.
	InputModalities []string
	// Vision bounds requests with images; nil: no bounds.
	Vision *VisionLimits
	// ImageHosts are the hosts that https URLs of images may name, exactly or as *.example.com;
	// empty: any.
	ImageHosts []string
	// Refuse are the members that steer an engine and are not for clients.
	Refuse *Refusals
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

// Check applies the rules that depend on the model to a decoded request. It lowers MaxTokens and
// Effort to the model's, and finds the token limit for the engine of a request without one
// (TokenLimit); AppendUpstream then writes these values. The error is an *apierr.Error. Checking
// twice is harmless.
//
// A prompt is never refused for its length: that is left to the engine, which can count.
func (r *Request) Check(rules *ModelRules) error {
	if err := rules.Refuse.Members(r.doc.Root()); err != nil {
		return err
	}
	for _, rule := range checkRules {
		if e := rule(r, rules); e != nil {
			return e.Err()
		}
	}
	return nil
}

var checkRules = [...]func(*Request, *ModelRules) *Invalid{
	(*Request).checkFeatures,
	(*Request).checkImages,
	(*Request).checkMedia,
	(*Request).checkEffort,
	(*Request).checkTokenLimit,
	(*Request).checkAnyTool,
}

// checkAnyTool refuses a word that the contract does not have, where no other is tolerated.
func (r *Request) checkAnyTool(rules *ModelRules) *Invalid {
	if r.anyTool && rules.Strict {
		return Unsupported("tool_choice", "must be auto, none, required or an object that names a function")
	}
	return nil
}

func (r *Request) checkFeatures(rules *ModelRules) *Invalid {
	if rules.Features == nil {
		return nil
	}
	offers := func(feature string) bool { return slices.Contains(rules.Features, feature) }
	switch {
	case r.HasTools && !offers(FeatureTools):
		return Unsupported("tools", "cannot be used: the model does not offer tool calling")
	case r.StructuredOutput && !offers(FeatureStructuredOutputs) && (r.schema || !offers(FeatureJSONMode)):
		return Unsupported("response_format", "must be text or absent: the model does not offer structured outputs")
	case rules.Efforts == nil && r.Effort != "" && r.Effort != "none" && !offers(FeatureReasoning):
		if !rules.LowerEffort {
			return Unsupported(r.effortParam(), "must be none or absent: the model does not offer reasoning")
		}
		r.Effort = ""
	}
	return nil
}

func (r *Request) checkEffort(rules *ModelRules) *Invalid {
	if r.foreign && rules.Strict {
		return Unsupported(r.effortParam(), "must be one of none, low, medium, high and xhigh")
	}
	if rules.Efforts == nil || r.Effort == "" || slices.Contains(rules.Efforts, r.Effort) {
		return nil
	}
	if !rules.LowerEffort {
		if len(rules.Efforts) == 0 {
			return Unsupported(r.effortParam(), "cannot be used: the model offers no reasoning effort")
		}
		return Unsupported(r.effortParam(), "must be one that the model offers: "+strings.Join(rules.Efforts, ", "))
	}
	r.Effort = LowerEffort(rules.Efforts, r.Effort)
	return nil
}

// effortParam returns the path of the member that gave the effort.
func (r *Request) effortParam() string {
	if Given(r.members[memberReasoningEffort]) {
		return "reasoning_effort"
	}
	return "reasoning.effort"
}

func (r *Request) checkImages(rules *ModelRules) *Invalid {
	if len(r.Images) > 0 && rules.InputModalities != nil && !slices.Contains(rules.InputModalities, modalityImage) {
		return Unsupported(r.Images[0].Param(), "cannot be used: the model does not take images").AboutImage()
	}
	for i := range r.Images {
		m := &r.Images[i]
		if v := rules.Vision; v != nil && v.MaxPixels > 0 && m.Pixels() > int64(v.MaxPixels) {
			return WrongValue(m.Param(), "has "+strconv.FormatInt(m.Pixels(), 10)+" pixels; the model takes at most "+
				strconv.Itoa(v.MaxPixels)+". Send a smaller image").AboutImage()
		}
		if m.Host != nil && len(rules.ImageHosts) > 0 && !hostAllowed(rules.ImageHosts, m.Host) {
			return WrongValue(m.Param(), "names a host that images are not taken from; send the image as a data URL")
		}
	}
	return nil
}

func (r *Request) checkTokenLimit(rules *ModelRules) *Invalid {
	bound, context := rules.MaxOutputLength, rules.Context(r)
	if v := rules.Vision; v != nil && len(r.Images) > 0 {
		bound = smaller(bound, v.MaxTokens)
	}
	param := "max_tokens"
	if Given(r.members[memberMaxCompletionTokens]) {
		param = "max_completion_tokens"
	}
	if bound > 0 && r.MaxTokens > bound {
		if rules.Strict {
			return WrongValue(param, "must be at most "+strconv.Itoa(bound)+", the longest answer of the model")
		}
		r.MaxTokens = bound
	}
	r.bound, r.defaultLimit = bound, -1
	if r.MaxTokens < 0 && bound > 0 {
		r.defaultLimit = DefaultLimit(bound, context, r.EstimateTokens(DenseText))
	}
	if rules.Strict {
		if e := RefuseAliases(r.doc.Root(), bound, ""); e != nil {
			return e
		}
	}
	if rules.Strict && context > 0 && r.MaxTokens > context {
		return &Invalid{Param: param, Code: apierr.CodeContextLength, Text: "alone is larger than the context of the model: " +
			strconv.Itoa(r.MaxTokens) + " tokens > " + strconv.Itoa(context) + " maximum"}
	}
	return nil
}

// Context returns the context in tokens that the limits name for a request; 0: none.
func (rules *ModelRules) Context(r *Request) int {
	if rules.Vision != nil && len(r.Images) > 0 {
		return smaller(rules.ContextLength, rules.Vision.ContextLength)
	}
	return rules.ContextLength
}

// smaller returns the smaller of two bounds, of which 0 is none.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
