package chat

// CountRequest describes a request that only counts the prompt's tokens.
type CountRequest struct {
	Served           string
	Model            []byte
	ReasoningHistory string          // see ModelRules
	Opener           ReasoningOpener // opens the sealed reasoning in the history; may be nil
}

// ReasoningOpener opens sealed reasoning that a client sends back.
type ReasoningOpener interface {
	// OpenReasoning appends the text of blob, as the contents of a JSON string. It reports whether
	// blob was issued to this client for the model.
	OpenReasoning(dst, model, blob []byte) ([]byte, bool)
}
