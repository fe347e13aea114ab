package engineerror

import (
	"regexp"
	"strings"
)

// The edge recognizes engine errors by phrases, which this file lists in lower case. To add a
// phrase, add one line with the engine's name here and one line in the test.

// clientErrorTypes lists the error types that mean that the request is at fault. The edge relies on
// the type if the status is missing or unspecific.
var clientErrorTypes = map[string]bool{
	"invalid_request_error":     true, // OpenAI, llama.cpp, Ollama
	"BadRequestError":           true, // vLLM
	"UnprocessableEntityError":  true, // vLLM
	"validation":                true, // TGI
	"exceed_context_size_error": true, // llama.cpp
}

// clientFaultPhrases lists phrases about invalid requests that engines report with status 500 or 501. All
// but the last four phrases come from llama.cpp's server, directly or through Ollama.
var clientFaultPhrases = []string{
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

// templateErrorPrefix precedes the reason why a model's chat template rejects a request. In
// llama.cpp, an excerpt of the template comes before the prefix. The status is 400 or 500,
// depending on where in the server the error occurred.
const templateErrorPrefix = "Jinja Exception: "

var effortPhrases = []string{
	"reasoning_effort",     // vLLM, SGLang, TensorRT-LLM: rejected by the request schema
	"reasoning.effort",     // the same member in Responses
	"output_config.effort", // the same member in Messages
	// The template of Qwen 3.8: "Unexpected reasoning effort high. Supported types are …".
	"reasoning effort",
	"invalid reasoning value", // Ollama
}

var rolesPhrases = []string{
	// The templates of Gemma, Mistral and Llama 2, in every engine.
	"roles must alternate",
	"unexpected role 'user' after role 'user'",          // mistral-common, in vLLM
	"unexpected role 'assistant' after role 'assistant", // mistral-common, in vLLM
}

// imagePhrases lists phrases which say that the model accepts no images, or fewer images than the
// request contains.
var imagePhrases = []string{
	"image input is not supported",   // llama.cpp; Ollama passes it on
	"does not support image",         // llama.cpp, Ollama, SGLang
	"data required for image input",  // Ollama
	"is not a multimodal model",      // vLLM
	"image(s) may be provided",       // vLLM: the request has too many images
	"the model does not take images", // from another Penstock edge, like the next four
	"send a smaller image",
	"webp",
	"must hold an image",
	"is one image too many",
}

// overloadPhrases lists phrases for error events whose status is meaningless. TGI opens a stream
// before it looks for a slot, and every error in the stream has the status 422.
var overloadPhrases = []string{"model is overloaded"}

// overflowPhrases lists phrases about a request that does not fit into the context.
var overflowPhrases = []string{
	"exceeds the available context size",       // llama.cpp
	"maximum context length",                   // vLLM, SGLang, OpenAI
	"the model's context length",               // vLLM, SGLang
	"longer than the maximum model length",     // vLLM
	"`inputs` tokens + `max_new_tokens` must",  // TGI
	"`inputs` must have less than",             // TGI
	"should not exceed max_input_len",          // TensorRT-LLM
	"should not exceed max_seq_len",            // TensorRT-LLM
	"must be greater than 0, `default_max_tok", // TensorRT-LLM: no tokens are left for the answer
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
	"should not exceed max_num_tokens",         // TensorRT-LLM: its token budget for one step
	"prompt too long",                          // Ollama
	"longer than the context length",           // Ollama
	"context size has been exceeded",           // llama.cpp in mid-generation; LM Studio with MLX
	"too large to process. increase the phys",  // llama.cpp: the input of an embedding or a ranking must fit into one batch

	// LM Studio: "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"
	"n_keep (",
	"reached context length of",

	"tokens) exceeds the maximum allowed len", // from SGLang's scheduler
	"exceeds the model context length",        // LMDeploy
	"greater than max_seq_len",                // older TabbyAPI
	"range of input length should be",         // DashScope, Xunfei
	"the configured context size is",          // ds4
	"maximum prompt length is",                // xAI
	"context window exceeds limit",            // MiniMax
	"exceeded model token limit",              // Moonshot
	"input is too long for requested model",   // Bedrock
	"reduce the length of the messages",       // Groq
	"model_context_window_exceeded",           // Z.ai
}

// contextSizePrefixes precede the context size. More specific phrases are first. promptSizePrefixes
// precede the size of the request. In messages that report prompt and answer separately,
// inputSizePrefixes precede the prompt size and answerSizePrefixes the answer size.
var (
	contextSizePrefixes = []string{
		"maximum context length is only ", "maximum context length is ",
		"maximum context length of ", "context length is only ", "context length (",
		"available context size (", "n_ctx: ", "maximum model length of ",
		"context length of only ", "context length of ", "must be <= ",
		"available context size of ", "maximum allowed length (", "current batch size: ", "n_ctx (", "should be [1, ",
		"configured context size is ", "maximum prompt length is ",
		"must have less than ", "max_input_len ", "max_seq_len (", "max_num_tokens (", "tokens > ",
	}
	promptSizePrefixes = []string{
		"request (", "your request has ", "requested a total of ", "you requested ",
		"(length ", "the input (", "given: ", "you passed ",
		"prompt length ", "keep the first ", "prompt contains at least ", "for a total of at least ", "too long: ",
		"prompt length (", "n_keep: ", "splited_prompt_len` (",
		"input length (", "input (", "n_keep (", "prompt has ", "request contains ", "allocation requires ",
	}
	inputSizePrefixes = []string{
		"your request has ", lowerBoundPrefix, "you passed ",
		"given: ", "prompt length (", "tokens: ", "tokens (",
	}
	answerSizePrefixes = []string{
		"is too large: ", "input messages and ", "in the messages, ",
		"and requested ", "`inputs` tokens and ", "max_tokens (", "you requested ",
	}
)

// excessPrefix precedes the number of tokens by which a prompt exceeds the context.
const excessPrefix = "exceeded max context length by "

// lowerBoundPrefix precedes a lower bound of the prompt size. vLLM stops counting just above the
// context size.
const lowerBoundPrefix = "prompt contains at least "

// modelMissingCodes lists, in lower case, the codes and types that mean that a model does not
// exist.
var modelMissingCodes = map[string]bool{
	"model_not_found":      true, // OpenAI, LM Studio
	"modelnotfound":        true,
	"modelnotfounderror":   true,
	"model_not_available":  true, // gateways
	"deploymentnotfound":   true, // Azure
	"deployment_not_found": true,
}

// modelMissingPhrases lists phrases which say that a model does not exist and do not contain the model's
// name.
var modelMissingPhrases = []string{
	"model not found",
	"model does not exist",
	"no such model",
	"unknown model",
	"repository not found",   // mlx-lm, from Hugging Face
	"no endpoints found for", // OpenRouter
}

var (
	// modelMissingPattern matches phrases that contain the model's name, such as "The model `x`
	// does not exist."
	modelMissingPattern = regexp.MustCompile("\\bmodel(?: with name| named| name| id)?:? [\"'`]?[^\"'`\\s]+[\"'`]? (?:(?:is |was )?not (?:found|installed|available|loaded)|does(?: not|n't) exist)")
	// requestObjectPattern matches the kinds of objects that a request may name. pathMissingPattern
	// matches messages of web frameworks and proxies. If a 404 matches neither these two patterns
	// nor a phrase about the model, it comes from another server at the engine's address.
	requestObjectPattern = regexp.MustCompile(`\b(?:image|file|voice|speaker|audio|video|url|adapter|lora|document|grammar|cache)s?\b`)
	pathMissingPattern   = regexp.MustCompile(`^(?:(?:404:? ?)?(?:the )?(?:(?:page|file|route|path|url|endpoint|resource|requested (?:url|path|resource)(?: \S+)?) )?(?:was )?not found(?: \([^)]*\))?(?: on (?:this|the) server)?(?:[.!].*)?$|404$|invalid url\b|unexpected endpoint\b|unknown (?:endpoint|path|route|request url)\b|unrecognized request url\b|no route\b|cannot post /)`)
)

// least is the minimum number of characters after the prefix. At least one of them must be a digit.
var secretKeyPrefixes = []struct {
	text  string
	least int
}{
	{"sk-", 4},
	{"sk_", 12},
	{"hf_", 12},
	{"gsk_", 12},
	{"xoxa-", 8},
	{"xoxb-", 8},
	{"xoxe-", 8},
	{"xoxp-", 8},
	{"xoxs-", 8},
	{"xapp-", 8},
	{"xai-", 12},
	{"nvapi-", 12},
	{"ghp_", 12},
	{"github_pat_", 12},
	{"glpat-", 12},
	{"AIza", 12},
	{"AKIA", 12},
	{"eyJ", 16},
	{"pstk_", 4},
	{"pplx-", 12},
	{"r8_", 12},
	{"tgp_", 12},
	{"fw_", 12},
	{"csk-", 12},
}

func containsAny(s string, list []string) bool {
	for _, part := range list {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
