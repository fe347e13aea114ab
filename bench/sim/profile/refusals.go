package profile

import (
	"fmt"
	"slices"
	"strings"
)

// TooLong is what the profile says of a prompt of so many tokens that wants so many more (below 0:
// not said) in a context of size.
func (p *Profile) TooLong(prompt, want, size int) APIError {
	err := APIError{Status: 400, Param: "messages"}
	switch p.Family {
	case "llamacpp", "ollama":
		err.Message = fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it",
			prompt, size)
		err.Kind = "exceed_context_size_error"
		err.extra = fmt.Sprintf(`,"n_prompt_tokens":%d,"n_ctx":%d`, prompt, size)
		if p.Family == "ollama" { // the runner's answer, as text inside of its own
			return APIError{Status: 400, Message: string(ByName["llamacpp"].AppendError(nil, err))}
		}
	case "sglang":
		err.Param = ""
		err.Message = fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			size, prompt+max(want, 0), prompt, max(want, 0))
	case "tgi":
		err.Status = 422
		err.Message = fmt.Sprintf("Input validation error: `inputs` tokens + `max_new_tokens` must be <= %d. Given: %d `inputs` tokens and %d `max_new_tokens`", size, prompt, max(want, 0))
		if prompt >= size {
			err.Message = fmt.Sprintf("Input validation error: `inputs` must have less than %d tokens. Given: %d", size, prompt)
		}
	case "trtllm":
		err.Param = ""
		err.Message = fmt.Sprintf("`default_max_tokens` (%d) must be greater than 0, `default_max_tokens` (%d) = max_seq_len (%d) - `splited_prompt_len` (%d) - `query_token_len` (0)",
			size-prompt, size-prompt, size, prompt)
	case "lmstudio":
		err.bare = true
		err.Message = fmt.Sprintf("The number of tokens to keep from the initial prompt is greater than the context length (n_keep: %d>= n_ctx: %d). Try to load the model with a larger context length, or provide a shorter input.", prompt, size)
	case "openai":
		err.Code = "context_length_exceeded"
		err.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.",
			size, prompt)
	default:
		err.Param = "input_tokens"
		err.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.",
			size, prompt)
		if prompt < size {
			err.Param = "max_tokens"
			err.Message = fmt.Sprintf("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens (%d > %d - %d).",
				want, size, prompt, want, size, prompt)
		}
	}
	return err
}

// Full is how the profile refuses a request that found no place in its queue. Engines whose queue
// has no bound never say it: then it is what the one in front of them would say.
func (p *Profile) Full() APIError {
	if p.FullError.Message != "" {
		return p.FullError
	}
	return APIError{
		Status:  503,
		Message: "The server is overloaded: the maximum number of queued requests is reached. Please try again later.",
	}
}

// UnknownModelError is how the profile refuses a model that it does not have.
func (p *Profile) UnknownModelError(asked string) APIError {
	err := p.NoModel
	if err.Message == "" {
		err = APIError{Status: 404, Message: "The model `%s` does not exist.", Param: "model"}
	}
	err.Message = strings.Replace(err.Message, "%s", asked, 1)
	return err
}

// CheckVoice refuses a voice that the engine does not have. Only Kokoro's list is known; its server
// maps OpenAI's names to it.
func (p *Profile) CheckVoice(name string) *APIError {
	if p.Family != "kokoro" || name == "" || slices.Contains(openaiVoices, name) || slices.Contains(KokoroVoices, name) {
		return nil
	}
	return &APIError{
		Status: 400, Code: "validation_error", Kind: "invalid_request_error",
		Message: "Voice '" + name + "' not found. Available voices: " + strings.Join(KokoroVoices, ", "),
	}
}

// The voices that Kokoro knows: KokoroVoices are its own, and it maps those of OpenAI to them.
var (
	openaiVoices = []string{"alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse"}
	KokoroVoices = []string{"af_alloy", "af_bella", "af_heart", "af_sky", "am_adam", "am_echo", "bf_emma", "bm_george"}
)

// What pages and faulty answers carry that must never reach a client. Tests look for them.
const (
	LeakedHost   = "gpu-node-17.internal.example" // in HTML pages and 5xx texts
	LeakedPath   = "/srv/models/secret-checkpoint"
	LeakedSecret = "s3cr3t-from-the-engine" // in headers
)
