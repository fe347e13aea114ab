package chat

// ModelRules holds the rules that Check applies to a request. They come from the model's catalog
// entry and the edge's settings. The zero value limits nothing. Check only reads a ModelRules, so
// all requests for a model share one.
type ModelRules struct {
	// Strict refuses what is otherwise adjusted: a token limit too high for the model or its context,
	// and the efforts "minimal" and "max". It also refuses audio, video and files.
	Strict bool
	// ContextLength is in tokens; 0: unknown.
	ContextLength int
	// MaxOutputLength is the maximum token limit; 0: none.
	MaxOutputLength int
	// Efforts are the reasoning efforts that the model offers; nil: unknown, no effort is refused.
	Efforts []string
	// LowerEffort replaces an effort that the model does not offer with the nearest lower effort,
	// instead of refusing the request. The dialects other than chat require this.
	LowerEffort bool
	// ReasoningHistory is ReasoningLoop or ReasoningNone. With any other word, the engine gets all
	// reasoning in the history.
	ReasoningHistory string
	// Features are the optional features that the model offers (FeatureTools and so on); nil:
	// unknown, no feature is refused.
	Features []string
	// InputModalities are text, image and so on; nil: unknown, no modality is refused.
	InputModalities []string
	// Vision limits requests with images; nil: no limits.
	Vision *VisionLimits
	// ImageHosts are the hosts that https image URLs may name, exactly or as *.example.com; empty:
	// any host.
	ImageHosts []string
	// Refuse holds the members that steer an engine and that clients must not set.
	Refuse *RefusedMembers
}

// VisionLimits limits requests with images. A zero field sets no limit.
type VisionLimits struct {
	MaxPixels     int // of one image
	MaxTokens     int // of the completion
	ContextLength int // in tokens, if it is smaller than the model's
}

// The model features that a request may need.
const (
	FeatureTools             = "tools"
	FeatureStructuredOutputs = "structured_outputs"
	FeatureJSONMode          = "json_mode" // enough for response_format json_object
	FeatureReasoning         = "reasoning"
)

const modalityImage = "image"

// Context returns the context length, in tokens, for a request with or without images, or 0 if
// there is none.
func (rules *ModelRules) Context(images bool) int {
	if rules.Vision != nil && images {
		return smaller(rules.ContextLength, rules.Vision.ContextLength)
	}
	return rules.ContextLength
}
