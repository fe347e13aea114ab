package chat

import (
	"slices"
	"strconv"
	"strings"

	"penstock/translate/apierr"
)

// Limits is what Check holds a request to: the catalog entry of its model and the settings of the edge. The zero value
// limits nothing. It is only read, so one Limits serves all requests for a model at once.
type Limits struct {
	// Strict refuses what is otherwise made to fit: a token limit that is too high, for the model or for its context, and the
	// efforts "minimal" and "max". Nor does it take audio, video and files.
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

// Check applies the rules that depend on the model to a decoded request. It lowers MaxTokens and Effort where the limits
// say so, and finds the limit that an engine is told when the client gave none (TokenLimit); AppendUpstream then writes these
// values. The error is an *apierr.Error. Checking twice is harmless.
//
// A prompt is never refused for its length: that is left to the engine, which can count.
func (r *Request) Check(l *Limits) error {
	if err := l.Refuse.Members(r.doc.Root()); err != nil {
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
	(*Request).checkMedia,
	(*Request).checkEffort,
	(*Request).checkTokenLimit,
	(*Request).checkAnyTool,
}

// checkAnyTool refuses a word that the contract does not have, where no other is tolerated.
func (r *Request) checkAnyTool(l *Limits) *Invalid {
	if r.anyTool && l.Strict {
		return Unsupported("tool_choice", "must be auto, none, required or an object that names a function")
	}
	return nil
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
	if r.foreign && l.Strict {
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
	bound, context := l.MaxOutputLength, l.Context(r)
	if v := l.Vision; v != nil && len(r.Images) > 0 {
		bound = smaller(bound, v.MaxTokens)
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
	if l.Strict && context > 0 && r.MaxTokens > context {
		return &Invalid{param, apierr.CodeContextLength, "alone is larger than the context of the model: " +
			strconv.Itoa(r.MaxTokens) + " tokens > " + strconv.Itoa(context) + " maximum"}
	}
	return nil
}

// Context returns the context in tokens that the limits name for a request; 0: none.
func (l *Limits) Context(r *Request) int {
	if l.Vision != nil && len(r.Images) > 0 {
		return smaller(l.ContextLength, l.Vision.ContextLength)
	}
	return l.ContextLength
}

// smaller returns the smaller of two bounds, of which 0 is none.
func smaller(a, b int) int {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}
