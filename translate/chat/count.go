package chat

// CountRequest holds what an engine's own counter needs to know about a request that it counts in
// the client's dialect.
type CountRequest struct {
	Served           string // the engine's name for the model
	Model            []byte // the name that the client wrote
	ReasoningHistory string // see ModelRules
	Opener           Opener // opens the sealed reasoning in the history; nil: it stays closed
}

// Opener opens sealed reasoning that a request brings back.
type Opener interface {
	// Open appends the text, as the contents of a JSON string. It reports whether blob was issued
	// to this client for the model.
	Open(dst, model, blob []byte) ([]byte, bool)
}
