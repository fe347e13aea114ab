package engineerror

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"penstock/translate"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name   string
		status int
		ctype  string
		body   string
		want   Error
	}{
		{"empty", 500, "", "", Error{}},
		{"empty 415", 415, "", "", Error{}},
		{"redirect", 302, "application/json", `{"error":{"message":"moved","type":"invalid_request_error"}}`, Error{Type: "invalid_request_error", Message: "moved"}},
		{"html", 502, "text/html", "<html><h1>502 Bad Gateway</h1>gpu-a</html>", Error{}},
		{"html by type", 502, "text/html; charset=utf-8", "upstream gpu-a down", Error{}},
		{"text", 404, "text/plain", "404 page not found\n", Error{Message: "404 page not found", Absent: AbsentPath}},
		{"cut JSON", 500, "application/json", `{"error":{"message":"abc`, Error{}},
		{"JSON string", 400, "application/json", `"bad thing"`, Error{Message: "bad thing", ClientFault: true}},
		{"number", 400, "application/json", `7`, Error{Message: "7", ClientFault: true}},

		// Recorded from llama.cpp.
		{
			"llama.cpp context", 400, "application/json",
			`{"error":{"code":400,"message":"request (4920 tokens) exceeds the available context size (2048 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4920,"n_ctx":2048}}`,
			Error{Status: 400, Type: "exceed_context_size_error", Message: "request (4920 tokens) exceeds the available context size (2048 tokens), try increasing it", ContextOverflow: true, ContextPrompt: 4920, ContextMax: 2048, ClientFault: true},
		},
		{
			"llama.cpp bad JSON", 400, "application/json",
			`{"error":{"code":400,"message":"[json.exception.parse_error.101] parse error at line 1, column 31: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal","type":"invalid_request_error"}}`,
			Error{Status: 400, Type: "invalid_request_error", Message: "[json.exception.parse_error.101] parse error at line 1, column 31: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal", ClientFault: true},
		},
		{
			"llama.cpp image", 500, "application/json",
			`{"error":{"code":500,"message":"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj","type":"server_error"}}`,
			Error{Status: 500, Type: "server_error", Message: "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", ClientFault: true},
		},
		{
			"llama.cpp tools", 500, "application/json",
			`{"error":{"code":500,"message":"Failed to parse tools: Missing tool function: {\"type\":\"function\"}; tools = [\n  {\n    \"type\": \"function\"\n  }\n]","type":"server_error"}}`,
			Error{Status: 500, Type: "server_error", Message: `Failed to parse tools: Missing tool function: {"type":"function"}; tools = [ { "type": "function" } ]`, ClientFault: true},
		},
		{
			"llama.cpp role", 500, "application/json",
			`{"error":{"code":500,"message":"Failed to parse messages: Missing 'role' in message: {\"content\":\"hi\"}","type":"server_error"}}`,
			Error{Status: 500, Type: "server_error", Message: `Failed to parse messages: Missing 'role' in message: {"content":"hi"}`, ClientFault: true},
		},
		{
			"llama.cpp audio off", 501, "application/json",
			`{"error":{"code":501,"message":"The current model does not support audio input.","type":"not_supported_error"}}`,
			Error{Status: 501, Type: "not_supported_error", Message: "The current model does not support audio input.", ClientFault: true},
		},
		{
			"llama.cpp loading", 503, "application/json",
			`{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`,
			Error{Status: 503, Type: "unavailable_error", Message: "Loading model"},
		},

		// Recorded from Ollama.
		{
			"ollama context", 400, "application/json",
			`{"error":{"message":"{\"error\":{\"code\":400,\"message\":\"request (4920 tokens) exceeds the available context size (2048 tokens), try increasing it\",\"type\":\"exceed_context_size_error\",\"n_prompt_tokens\":4920,\"n_ctx\":2048}}","type":"invalid_request_error","param":null,"code":null}}`,
			Error{Status: 400, Type: "invalid_request_error", Message: "request (4920 tokens) exceeds the available context size (2048 tokens), try increasing it", ContextOverflow: true, ContextPrompt: 4920, ContextMax: 2048, ClientFault: true},
		},
		{
			"ollama image", 500, "application/json",
			`{"error":{"message":"{\"error\":{\"code\":500,\"message\":\"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj\",\"type\":\"server_error\"}}","type":"api_error","param":null,"code":null}}`,
			Error{Status: 500, Type: "api_error", Message: "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", ClientFault: true},
		},
		{
			"ollama busy", 503, "application/json",
			`{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}`,
			Error{Type: "api_error", Message: "server busy, please try again. maximum pending requests exceeded"},
		},
		{"ollama native", 404, "application/json", `{"error":"model 'absent' not found"}`, Error{Message: "model 'absent' not found", Absent: AbsentModel}},

		// From the source code of vLLM, SGLang and TGI.
		{
			"vllm", 400, "application/json",
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, your request has 5120 input tokens. Please reduce the length of the input messages.","type":"BadRequestError","param":null,"code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "This model's maximum context length is 4096 tokens. However, your request has 5120 input tokens. Please reduce the length of the input messages.", ContextOverflow: true, ContextPrompt: 5120, ContextMax: 4096, ClientFault: true},
		},
		{
			"vllm sum", 400, "",
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 100 output tokens and your prompt contains at least 3997 input tokens, for a total of at least 4097 tokens.","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "This model's maximum context length is 4096 tokens. However, you requested 100 output tokens and your prompt contains at least 3997 input tokens, for a total of at least 4097 tokens.", ContextOverflow: true, ContextAtLeast: true, ContextPrompt: 3997, ContextAnswer: 100, ContextMax: 4096, ClientFault: true},
		},
		{
			"vllm answer", 400, "",
			`{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 19082 input tokens (32000 > 40960 - 19082).","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 19082 input tokens (32000 > 40960 - 19082).", ContextOverflow: true, ContextPrompt: 19082, ContextAnswer: 32000, ContextMax: 40960, ClientFault: true},
		},
		{
			"vllm answer, older", 400, "",
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5100 tokens (3100 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "This model's maximum context length is 4096 tokens. However, you requested 5100 tokens (3100 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.", ContextOverflow: true, ContextPrompt: 3100, ContextAnswer: 2000, ContextMax: 4096, ClientFault: true},
		},
		{
			"vllm prompt, older", 400, "",
			`{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 7100 tokens (5100 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "This model's maximum context length is 4096 tokens. However, you requested 7100 tokens (5100 in the messages, 2000 in the completion). Please reduce the length of the messages or completion.", ContextOverflow: true, ContextPrompt: 7100, ContextMax: 4096, ClientFault: true},
		},
		{
			"vllm passed", 400, "",
			`{"error":{"message":"You passed 3100 input tokens and requested 2000 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 2096 tokens. Please reduce the length of the input prompt.","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "You passed 3100 input tokens and requested 2000 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 2096 tokens. Please reduce the length of the input prompt.", ContextOverflow: true, ContextPrompt: 3100, ContextAnswer: 2000, ContextMax: 4096, ClientFault: true},
		},
		{
			"sglang answer", 400, "",
			`{"object":"error","message":"Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5100 tokens: 3100 tokens from the input messages and 2000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.","type":"BadRequestError","param":null,"code":400}`,
			Error{Status: 400, Type: "BadRequestError", Message: "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of 5100 tokens: 3100 tokens from the input messages and 2000 tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.", ContextOverflow: true, ContextPrompt: 3100, ContextAnswer: 2000, ContextMax: 4096, ClientFault: true},
		},
		{
			"tgi answer", 422, "",
			"{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3100 `inputs` tokens and 2000 `max_new_tokens`\",\"error_type\":\"validation\"}",
			Error{Type: "validation", Message: "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 3100 `inputs` tokens and 2000 `max_new_tokens`", ContextOverflow: true, ContextPrompt: 3100, ContextAnswer: 2000, ContextMax: 4096, ClientFault: true},
		},
		{
			"vllm characters", 400, "",
			`{"error":{"message":"You passed 99999 input characters and requested 10 output tokens. However, the model's context length is only 4096 tokens.","type":"BadRequestError","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Message: "You passed 99999 input characters and requested 10 output tokens. However, the model's context length is only 4096 tokens.", ContextOverflow: true, ClientFault: true},
		},
		{
			"vllm dead", 500, "",
			`{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`,
			Error{Status: 500, Type: "InternalServerError", Message: "EngineCore encountered an issue. See stack trace (above) for the root cause."},
		},
		{
			"sglang", 400, "",
			`{"object":"error","message":"The input (5000 tokens) is longer than the model's context length (4096 tokens).","type":"400","param":null,"code":400}`,
			Error{Status: 400, Message: "The input (5000 tokens) is longer than the model's context length (4096 tokens).", ContextOverflow: true, ContextPrompt: 5000, ContextMax: 4096, ClientFault: true},
		},
		{
			"tgi", 422, "",
			"{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`\",\"error_type\":\"validation\"}",
			Error{Type: "validation", Message: "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", ContextOverflow: true, ContextPrompt: 5000, ContextMax: 4096, ClientFault: true},
		},
		{
			"trtllm", 400, "",
			"{\"object\":\"error\",\"message\":\"`default_max_tokens` (-152) must be greater than 0, `default_max_tokens` (-152) = max_seq_len (8192) - `splited_prompt_len` (8344) - `query_token_len` (0)\",\"type\":\"BadRequestError\",\"param\":null,\"code\":400}",
			Error{Status: 400, Type: "BadRequestError", Message: "`default_max_tokens` (-152) must be greater than 0, `default_max_tokens` (-152) = max_seq_len (8192) - `splited_prompt_len` (8344) - `query_token_len` (0)", ContextOverflow: true, ContextPrompt: 8344, ContextMax: 8192, ClientFault: true},
		},
		{
			"trtllm, above its budget of tokens", 400, "", `{"object":"error","message":"The sum of prompt length (9000), query length (0) should not exceed max_num_tokens (8192)","code":400}`,
			Error{Status: 400, Message: "The sum of prompt length (9000), query length (0) should not exceed max_num_tokens (8192)", ContextOverflow: true, ContextPrompt: 9000, ContextMax: 8192, ClientFault: true},
		},
		{
			"ollama, by how much", 400, "application/json", `{"error":{"message":"prompt too long; exceeded max context length by 37 tokens","type":"invalid_request_error","param":null,"code":null}}`,
			Error{Type: "invalid_request_error", Message: "prompt too long; exceeded max context length by 37 tokens", ContextOverflow: true, ContextExcess: 37, ClientFault: true},
		},
		{
			"ollama, its own form", 500, "application/json", `{"error":"prompt too long; exceeded max context length by 37 tokens"}`,
			Error{Message: "prompt too long; exceeded max context length by 37 tokens", ContextOverflow: true, ContextExcess: 37, ClientFault: true},
		},
		{
			"trtllm, an answer too long", 400, "", `{"object":"error","message":"The sum of prompt length (4000) and query length (0) max_tokens (2048) should not exceed max_seq_len (4096)","code":400}`,
			Error{Status: 400, Message: "The sum of prompt length (4000) and query length (0) max_tokens (2048) should not exceed max_seq_len (4096)", ContextOverflow: true, ContextPrompt: 4000, ContextAnswer: 2048, ContextMax: 4096, ClientFault: true},
		},
		{
			"lm studio", 400, "", `{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}`,
			Error{Message: "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input.", ContextOverflow: true, ContextPrompt: 13055, ContextMax: 4096, ClientFault: true},
		},
		{"tgi overloaded", 429, "", `{"error":"Model is overloaded","error_type":"overloaded"}`, Error{Type: "overloaded", Message: "Model is overloaded"}},
		{"openai", 400, "", `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, Error{Type: "invalid_request_error", Code: "context_length_exceeded", Message: "too long", ContextOverflow: true, ClientFault: true}},

		{"sizes beside the message", 400, "", `{"error":{"message":"too much","type":"exceed_context_size_error","n_prompt_tokens":50,"n_ctx":20}}`, Error{Type: "exceed_context_size_error", Message: "too much", ContextOverflow: true, ContextPrompt: 50, ContextMax: 20, ClientFault: true}},
		{"one size beside the message", 400, "", `{"error":{"message":"request (50 tokens) exceeds the available context size (20 tokens)","n_ctx":10}}`, Error{Message: "request (50 tokens) exceeds the available context size (20 tokens)", ContextOverflow: true, ContextPrompt: 50, ContextMax: 20, ClientFault: true}},
		{"sizes of something else", 503, "", `{"error":{"message":"busy","n_prompt_tokens":50,"n_ctx":20}}`, Error{Message: "busy"}},

		// FastAPI.
		{"detail", 404, "", `{"detail":"Not Found"}`, Error{Message: "Not Found", Absent: AbsentPath}},
		{"detail list", 422, "", `{"detail":[{"type":"missing","loc":["body","messages",0,"role"],"msg":"Field required"},{"loc":["body","n"],"msg":"not an integer"}]}`, Error{Message: "body.messages.0.role: Field required; body.n: not an integer", ClientFault: true}},
		{"detail object", 500, "", `{"detail":{"error":"processing_error","message":"no voice","type":"server_error"}}`, Error{Type: "server_error", Message: "no voice"}},

		{"list of errors", 404, "", `[{"error":{"code":404,"message":"no model","status":"NOT_FOUND"}}]`, Error{Status: 404, Code: "NOT_FOUND", Message: "no model"}},

		// Errors within a stream.
		{"event", 0, "", `{"error":{"message":"queue is full","code":503}}`, Error{Status: 503, Message: "queue is full"}},
		{"event 400", 0, "", `{"error":{"message":"x","code":400}}`, Error{Status: 400, Message: "x", ClientFault: true}},
		{"answer 400", 200, "", ` {"error":{"message":"x","type":"a.z-_9","code":"400"}}`, Error{Status: 400, Type: "a.z-_9", Message: "x", ClientFault: true}},
		{"event digits", 0, "", `{"error":{"message":"x","code":"429"}}`, Error{Status: 429, Message: "x"}},
		{"event no status", 0, "", `{"error":{"message":"x","type":"BadRequestError","code":7}}`, Error{Type: "BadRequestError", Message: "x", ClientFault: true}},
		{"tgi overloaded in a stream", 0, "", `{"error":{"message":"Model is overloaded","http_status_code":422}}`, Error{Status: 429, Message: "Model is overloaded"}},
		{"tgi refusal in a stream", 0, "", `{"error":{"message":"Input validation error: tool_choice","http_status_code":422}}`, Error{Message: "Input validation error: tool_choice", ClientFault: true}},
		{"tgi failure in a stream", 0, "", `{"error":{"message":"Request failed during generation: CUDA","http_status_code":422}}`, Error{Message: "Request failed during generation: CUDA"}},
		{"event text", 0, "", `it broke`, Error{Message: "it broke"}},

		// Hostile errors.
		{"types that are no words", 500, "", `{"error":{"message":"x","type":"a b<c>","code":"\u0007"}}`, Error{Message: "x"}},
		{"control characters", 500, "", `{"error":"a\u0000b\r\nc\u202ed\u001b[31me"}`, Error{Message: "a b cd [31me"}},
		{"addresses", 500, "", `{"error":"dial http://gpu-a:8000/v1: 10.1.2.3:8000 (/usr/lib/python3/x.py) node-7.cluster.internal:9000 C:\\models\\a at localhost:11434, see /v1/models and a/b 1.2.3 12:30"}`, Error{Message: "dial [address] [address] ([path]) [address] [path] at [address], see /v1/models and a/b 1.2.3 12:30"}},
		{"bare addresses", 500, "", `{"error":"10.1.2.3 and 10.1.2.3/24, fd00::1. [fe80::1%eth0]:80 ::1: 1.2.3.4.5 1.2.3 10.1.2.3456 12:30:45 1..2.3.4 std::bad_alloc"}`, Error{Message: "[address] and [address], [address] [[address]]:80 [address] 1.2.3.4.5 1.2.3 10.1.2.3456 12:30:45 1..2.3.4 std::bad_alloc"}},
		{"traceback", 500, "", "Traceback (most recent call last):\n File \"/x/y.py\"", Error{}},
		{"wrapped without end", 500, "", strings.Repeat(`{"error":`, 40) + `"x"` + strings.Repeat(`}`, 40), Error{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := ParseErrorBody(test.status, test.ctype, []byte(test.body))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAboutImages checks the phrases that engines use if a model does not accept images.
func TestAboutImages(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"image input is not supported - hint: if this is unexpected, you may need to provide the mmproj": true,
		"The current model does not support image input.":                                                true,
		"Failed to load image: data required for image input":                                            true,
		"org/served-7b is not a multimodal model":                                                        true,
		"At most 1 image(s) may be provided in one prompt.":                                              true,
		"messages[0].content[1].image_url cannot be used: the model does not take images.":               true,
		"The current model does not support audio input.":                                                false,
		"": false,
	} {
		if got := (&Error{Message: message}).IsAboutImages(); got != want {
			t.Errorf("IsAboutImages of %q = %v, want %v", message, got, want)
		}
	}
}

func TestIsBounded(t *testing.T) {
	for _, body := range []string{
		`{"error":"` + strings.Repeat("ä", 4000) + `"}`,
		strings.Repeat("ä ", 4000),
		`{"detail":[` + strings.Repeat(`{"loc":["`+strings.Repeat("x", 500)+`"],"msg":"`+strings.Repeat("y", 500)+`"},`, 100) + `{}]}`,
	} {
		e := ParseErrorBody(400, "", []byte(body))
		if len(e.Message) == 0 || len(e.Message) > maxMessageBytes || !utf8.ValidString(e.Message) {
			t.Errorf("message of %d bytes, valid UTF-8 %v", len(e.Message), utf8.ValidString(e.Message))
		}
	}
}

func TestTextIsSafeToLog(t *testing.T) {
	e := ParseErrorBody(400, "", []byte(`{"error":{"message":"canary","type":"canary","code":"canary"}}`))
	for _, err := range []error{&e, &translate.BadAnswerError{Reason: "x", Cause: &e}} {
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("%T quotes the engine: %v", err, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(400, "application/json", []byte(`{"error":{"message":"{\"error\":\"x\"}","code":400}}`))
	f.Add(500, "", []byte(`{"detail":[{"loc":["a",1],"msg":"m"}]}`))
	f.Add(0, "text/html", []byte(`<`))
	f.Add(422, "", []byte("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 99999999999 /a/b/c http://x"))
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		e := ParseErrorBody(status, contentType, body)
		if len(e.Message) > maxMessageBytes || !utf8.ValidString(e.Message) || strings.ContainsFunc(e.Message, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("message is not clean: %q", e.Message)
		}
		if e.Status != 0 && (e.Status < 400 || e.Status > 599) {
			t.Errorf("got the status %d, want 0 or 400 to 599", e.Status)
		}
		if e.ContextPrompt < 0 || e.ContextMax < 0 || !e.ContextOverflow && e.ContextPrompt+e.ContextMax > 0 {
			t.Errorf("sizes %d > %d, overflow %v", e.ContextPrompt, e.ContextMax, e.ContextOverflow)
		}
	})
}

// TestShortener checks what a StringShortener retains, however the text is split: the JSON
// structure, the start of each long string, and each short string as a whole.
func TestShortener(t *testing.T) {
	t.Parallel()
	shorten := func(body string, size int) string {
		var s StringShortener
		var out []byte
		for len(body) > 0 {
			n := min(size, len(body))
			out = s.Append(out, []byte(body[:n]))
			body = body[n:]
		}
		return string(out)
	}
	short := `{"a":["\"x\\\\",1,"\u00e9ä€😀",{"b\"":null}],"c":""} `
	for _, unit := range []string{"word ", `\"`, `\\`, `\u00e9`, "ä", "€", "😀", `\ud83d\ude00`} {
		for lead := range 7 {
			long := strings.Repeat("x", lead) + strings.Repeat(unit, 20_000)
			for _, size := range []int{1, 7, 4096} {
				if got := shorten(short, size); got != short {
					t.Fatalf("shorten(%s) = %s, want it unchanged", short, got)
				}
				got := shorten(`{"input":{"`+long+`":["`+long+`"]},"message":"odd","type":"a"}`, size)
				e := ParseErrorBody(400, "application/json", []byte(got))
				if len(got) > 2*maxMessageString+100 || e.Message != "odd" || e.Type != "a" || !strings.HasPrefix(got, `{"input":{"`+long[:1000]) {
					t.Fatalf("%q after %d: %d bytes, %+v", unit, lead, len(got), e)
				}
			}
		}
	}
}

// TestOverflowPhrases checks the phrases that engines and services use if a request does not fit. If
// the error has the right code, agents compact their conversation. Otherwise they give up.
func TestOverflowPhrases(t *testing.T) {
	t.Parallel()
	for message, sizes := range map[string][2]int{
		"Range of input length should be [1, 202745]":                                                                        {},
		"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 6000]":                               {},
		"Input length (131081 tokens) exceeds the maximum allowed length (131066 tokens). Use a shorter input.":              {131081, 131066},
		"The input (210000 tokens) is longer than the model's context length (200000 tokens).":                               {210000, 200000},
		"Prompt length 9000 exceeds the available context size of 8192 tokens":                                               {9000, 8192},
		"Initial job allocation requires 9216 cache tokens, which exceeds the available context size of 8192 tokens":         {9216, 8192},
		"The request exceeds the model context length.":                                                                      {},
		"the prompt is longer than the context length currently available to the model; shorten the prompt":                  {},
		"input length (9000 tokens) exceeds the model's maximum context length (8192 tokens)":                                {9000, 8192},
		"input (3926 tokens) is too large to process. increase the physical batch size (current batch size: 2048)":           {3926, 2048},
		"Context size has been exceeded.":                                                                                    {},
		"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)":                                                         {15028, 7424},
		"Reached context length of 4096 tokens with model (arch: qwen3vlmoe) that does not support mid-generation overflow.": {},
		"`inputs` must have less than 512 tokens. Given: 600":                                                                {600, 512},
		"This model's maximum prompt length is 131072 but the request contains 537812 tokens":                                {537812, 131072},
		"Prompt has 32769 tokens, but the configured context size is 32768 tokens":                                           {32769, 32768},
		"invalid params, context window exceeds limit (2013)":                                                                {},
		"Your request exceeded model token limit: 262144 (requested: 270000)":                                                {},
	} {
		for _, status := range []int{400, 500, 0} {
			body, _ := json.Marshal(map[string]any{"error": map[string]string{"message": message}})
			e := ParseErrorBody(status, "application/json", body)
			if got := [2]int{e.ContextPrompt, e.ContextMax}; !e.ContextOverflow || !e.ClientFault || got != sizes {
				t.Errorf("%d %s: overflow %t, client's fault %t, sizes %v", status, message, e.ContextOverflow, e.ClientFault, got)
			}
		}
	}
	for _, message := range []string{"The message exceeds the maximum allowed length (280 characters)", "Rate limit exceeded", "context canceled"} {
		body, _ := json.Marshal(map[string]any{"error": map[string]string{"message": message}})
		if e := ParseErrorBody(400, "application/json", body); e.ContextOverflow {
			t.Errorf("%s is no overflow", message)
		}
	}
}
