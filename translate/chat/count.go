package chat

// CountRequest describes a request whose prompt an engine counts in the client's own dialect.
type CountRequest struct {
	Served           string // the engine's name for the model
	Model            []byte // the name that the client wrote
	ReasoningHistory string // see ModelRules
	Opener           Opener // opens the sealed reasoning in the history; nil: it is not opened
}

// Opener opens sealed reasoning that a client sends back.
type Opener interface {
	// Open appends the text, as the contents of a JSON string, and reports whether blob was issued
	// to this client for the model.
	Open(dst, model, blob []byte) ([]byte, bool)
}
