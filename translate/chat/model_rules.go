package chat

// ModelRules are the rules that CheckRules applies to a request. The zero value limits nothing. All
// requests for a model share a ModelRules, so CheckRules does not modify it.
type ModelRules struct {
	// Strict rejects requests whose token limit is too high, or whose effort is "minimal" or "max".
	// Otherwise, the edge adjusts such requests. Strict also rejects audio, video and files.
	Strict bool
	// ContextLength is in tokens; 0 if unknown.
	ContextLength int
	// MaxOutputLength is the maximum token limit; 0 if there is none.
	MaxOutputLength int
	// Efforts are the supported reasoning efforts. If nil, no effort is rejected.
	Efforts []string
	// LowerEffort replaces an unsupported effort with the nearest lower effort. All dialects except
	// chat require this.
	LowerEffort bool
	// ReasoningHistory is ReasoningHistoryLoop or ReasoningHistoryNone. For any other value, the
	// engine receives all reasoning in the history.
	ReasoningHistory string
	// Features are the supported optional features. If nil, no feature is rejected.
	Features []string
	// InputModalities are the supported kinds of input, such as text and image. If nil, images are
	// not rejected.
	InputModalities []string
	// Vision limits requests with images. It may be nil.
	Vision *VisionLimits
	// ImageHosts lists the allowed hosts of image URLs, as exact names or as *.example.com. If it
	// is empty, all public names are allowed.
	ImageHosts []string
	// Refuse lists the members that steer an engine and that clients must not set.
	Refuse *RefusedMembers
}

// VisionLimits limits requests with images. A field that is 0 sets no limit.
type VisionLimits struct {
	MaxPixels     int // per image
	MaxTokens     int // maximum token limit of the completion
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

// ContextTokens returns the context length for a request with or without images, or 0 if it is
// unknown.
func (rules *ModelRules) ContextTokens(images bool) int {
	if rules.Vision != nil && images {
		return lowerLimit(rules.ContextLength, rules.Vision.ContextLength)
	}
	return rules.ContextLength
}
