package chat

// CountRequest says what an engine's own counter needs to know of a request that it counts in the
// client's dialect.
type CountRequest struct {
	Served           string // the name that the engine knows the model by
	Model            []byte // the name that the client wrote
	ReasoningHistory string // see ModelRules
	Opener           Opener // of the sealed reasoning in the history; nil: nothing is opened
}

// Opener opens sealed reasoning that a request for a model brings back.
type Opener interface {
	// Open appends the text, the contents of a JSON string, and reports whether blob is one that this
	// client was given for the model.
	Open(dst, model, blob []byte) ([]byte, bool)
}
