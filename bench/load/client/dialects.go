package client

import "fmt"

var dialects = []*Dialect{
	{
		Name: "chat", Backend: "openai-chat", path: "/chat/completions", Streams: true, Tokens: true, Prompt: true,
		Body: appendChatBody, event: readChatEvent, readResponse: readChatResponse, end: endChatReply,
	},
	{
		Name: "messages", Backend: "messages", path: "/messages", Streams: true, Tokens: true, Prompt: true,
		Body: appendMessagesBody, event: readMessagesEvent, readResponse: readMessagesResponse, end: checkToolArguments,
	},
	{
		Name: "responses", Backend: "responses", path: "/responses", Streams: true, Tokens: true, Prompt: true,
		Body: appendResponsesBody, event: readResponsesEvent, readResponse: readResponsesResponse, end: checkToolArguments,
	},
	{
		Name: "completions", Backend: "openai", path: "/completions", Streams: true, Tokens: true, Prompt: true,
		Body: appendCompletionsBody, event: readCompletionsEvent, readResponse: readCompletionsResponse, end: endChatReply,
	},
	{
		Name: "embeddings", Backend: "openai-embeddings", path: "/embeddings", Prompt: true, Body: appendEmbeddingsBody,
		readResponse: readEmbeddingsResponse,
	},
	{
		Name: "transcription", Backend: "openai-audio", path: "/audio/transcriptions", Streams: true,
		Mime: "multipart/form-data; boundary=" + multipartBoundary, Body: appendTranscriptionBody, event: readTranscriptionEvent,
		readResponse: readTranscriptionResponse, end: func(*Reply) {},
	},
	{Name: "speech", Backend: "speech", path: "/audio/speech", isAudio: true, Body: appendSpeechBody},
}

// FindDialect returns the dialect with the given name, or nil if there is none. It also accepts
// vLLM's names for the dialects.
func FindDialect(name string) *Dialect {
	for _, d := range dialects {
		if d.Name == name || d.Backend == name {
			return d
		}
	}
	return nil
}

// DialectNames returns the names of all dialects.
func DialectNames() []string {
	var out []string
	for _, d := range dialects {
		out = append(out, d.Name)
	}
	return out
}

// AppendTools appends the member "tools" with n tools in the dialect's format. It appends nothing
// if n is 0 or the dialect does not support tools.
func AppendTools(dst []byte, d *Dialect, n int) []byte {
	form := map[string]string{
		"chat":      `{"type":"function","function":{"name":"look_up_%d","description":"Looks up topic %d.","parameters":%s}}`,
		"messages":  `{"name":"look_up_%d","description":"Looks up topic %d.","input_schema":%s}`,
		"responses": `{"type":"function","name":"look_up_%d","description":"Looks up topic %d.","parameters":%s,"strict":false}`,
	}[d.Name]
	if n == 0 || form == "" {
		return dst
	}
	const parameters = `{"type":"object","properties":{"query":{"type":"string","description":"What to look for."},"limit":{"type":"integer"}},"required":["query"]}`
	dst = append(dst, `,"tools":[`...)
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, form, i, i, parameters)
	}
	return append(dst, ']')
}
