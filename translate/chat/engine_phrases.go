package chat

// The words of engines by which their errors are understood: one table for each meaning. Texts and
// marks are in lower case, as messages are compared in lower case. A new wording of an engine is
// one line here, with the engine's name, and one in the test.

// clientTypes are the types of errors for which the request is to blame. They count when there is
// no status, or an unspecific one.
var clientTypes = map[string]bool{
	"invalid_request_error":     true, // OpenAI's word; llama.cpp, Ollama
	"BadRequestError":           true, // vLLM
	"UnprocessableEntityError":  true, // vLLM
	"validation":                true, // TGI
	"exceed_context_size_error": true, // llama.cpp
}

// clientTexts are in messages about a mistake in the request that come with status 500 or 501 and
// an unspecific type. All but the last four were seen with llama.cpp server and, passed on, with
// Ollama.
var clientTexts = []string{
	"failed to parse tools",
	"failed to parse messages",
	"failed to parse grammar",
	"'messages' is required",
	"input is not supported - hint",
	"does not support image input",
	"does not support audio input",
	"does not support tools",
	"input validation error", // TGI, in a stream
	"template error: ",       // TGI, in a stream
}

// overloadTexts are in the events of engines without room, whose status means nothing. TGI opens a
// stream before it looks for a place, and gives every error in it the number 422.
var overloadTexts = []string{"model is overloaded"}

// overflowTexts are in messages about a request that does not fit into the context.
var overflowTexts = []string{
	"exceeds the available context size",       // llama.cpp
	"maximum context length",                   // vLLM, SGLang, OpenAI
	"the model's context length",               // vLLM, SGLang
	"longer than the maximum model length",     // vLLM
	"`inputs` tokens + `max_new_tokens` must",  // TGI
	"`inputs` must have less than",             // TGI
	"should not exceed max_input_len",          // TensorRT-LLM
	"should not exceed max_seq_len",            // TensorRT-LLM
	"must be greater than 0, `default_max_tok", // TensorRT-LLM: what is left for the answer is below nothing
	"greater than the context length",          // LM Studio
	"prompt is too long",                       // Anthropic's wording
	"loaded with context length of only",       // LM Studio
	"exceeds the maximum number of tokens",     // TensorRT-LLM
	"input is too long for the model",          // gateways
	"exceeds the context window",               // OpenAI
	"longer than the model's context",          // SGLang
	"input length exceeds the context length",  // Ollama
	"exceeds maximum model length",             // older vLLM
	"exceed the configured limit of the model", // older vLLM
	"should not exceed max_num_tokens",         // TensorRT-LLM: its budget for the tokens of a step
	"prompt too long",                          // Ollama
}

// maxMarks stand before the size of the context, the more specific ones first; promptMarks before
// the size of the request, or of a part of it. inputMarks and answerMarks stand before the two
// parts, from engines that name both.
var (
	maxMarks = []string{
		"maximum context length is only ", "maximum context length is ", "maximum context length of ", "context length is only ", "context length (",
		"available context size (", "n_ctx: ", "maximum model length of ", "context length of only ", "context length of ", "must be <= ",
		"must have less than ", "max_input_len ", "max_seq_len (", "max_num_tokens (", "tokens > ",
	}
	promptMarks = []string{
		"request (", "your request has ", "requested a total of ", "you requested ", "(length ", "the input (", "given: ", "you passed ",
		"prompt length ", "keep the first ", "prompt contains at least ", "for a total of at least ", "too long: ",
		"prompt length (", "n_keep: ", "splited_prompt_len` (",
	}
	inputMarks  = []string{"your request has ", lowerBound, "you passed ", "given: ", "prompt length (", "tokens: ", "tokens ("}
	answerMarks = []string{
		"is too large: ", "input messages and ", "in the messages, ", "and requested ", "`inputs` tokens and ", "max_tokens (", "you requested ",
	}
)

// excessMark stands before the tokens by which a prompt exceeds the context.
const excessMark = "exceeded max context length by "

// lowerBound stands before a prompt's size that only just exceeds the context: vLLM counts no
// further.
const lowerBound = "prompt contains at least "
