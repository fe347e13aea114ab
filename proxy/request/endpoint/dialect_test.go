package endpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/body"
	"penstock/proxy/request/failure"
	"penstock/translate/apierr"
	"penstock/translate/engineerror"
)

// TestMessagesError checks the statuses, types and messages of errors in the Messages dialect.
func TestMessagesError(t *testing.T) {
	overflow := func(prompt, most int) *apierr.Error {
		e := apierr.Invalid("messages", apierr.CodeContextLength, "The request exceeds the available context size.")
		e.Overflow = apierr.ContextOverflow{Prompt: prompt, Max: most}
		return e
	}
	aboutImage := func(e *apierr.Error) *apierr.Error {
		e.Image = true
		return e
	}
	answer := overflow(3997, 4096)
	answer.Overflow.Answer = 100
	withRetry := apierr.New(503, apierr.CodeNoHealthyRoute, "No engine.")
	withRetry.RetryAfter = 7 * time.Second
	for _, c := range []struct {
		in      *apierr.Error
		status  int
		kind    string
		retry   int
		message string
	}{
		{apierr.New(502, apierr.CodeUpstreamFailed, "Failed."), 529, apierr.TypeOverloaded, 1, "Failed."},
		{withRetry, 529, apierr.TypeOverloaded, 7, "No engine."},
		{apierr.New(504, apierr.CodeGenerationTimeout, "Late."), 529, apierr.TypeOverloaded, 1, "Late."},
		{apierr.New(503, body.CodeNoMemory, "Full."), 529, apierr.TypeOverloaded, -1, ""},
		{apierr.New(500, apierr.CodeInternal, "Internal error."), 500, apierr.TypeAPI, 0, "Internal error."},
		{apierr.New(429, apierr.CodeCapacityFull, "Full."), 429, apierr.TypeRateLimit, 0, "Full."},
		{apierr.TooLarge(5), 413, apierr.TypeTooLarge, 0, ""},
		{apierr.UnsupportedHTTPVersion("No."), 505, apierr.TypeInvalidRequest, 0, "No."},
		{overflow(5000, 4096), 400, apierr.TypeInvalidRequest, 0, "prompt is too long: 5000 tokens > 4096 maximum"},
		{
			answer, 400, apierr.TypeInvalidRequest, 0, // agents search for this text
			"prompt is too long: 4097 tokens > 4096 maximum; input length and `max_tokens` exceed context limit: 3997 + 100 > 4096, " +
				"decrease input length or `max_tokens` and try again",
		},
		{overflow(0, 4096), 400, apierr.TypeInvalidRequest, 0, "prompt is too long. The request exceeds the available context size."},
		{
			aboutImage(apierr.Invalid("messages[0].content[1].source.data", apierr.CodeUnsupportedParameter, "It cannot be used.")),
			400, apierr.TypeInvalidRequest, 0, "It cannot be used. Could not process image.",
		},
		{
			// The prompt contains no image.
			apierr.Invalid("max_tokens", apierr.CodeUnsupportedParameter, "It must be image/webp."),
			400, apierr.TypeInvalidRequest, 0, "It must be image/webp.",
		},
		{
			failure.FromStatus(400, &engineerror.Error{Message: "At most 0 image(s) may be provided in one prompt."}, 0).API,
			400, apierr.TypeInvalidRequest, 0, "At most 0 image(s) may be provided in one prompt. Could not process image.",
		},
		{apierr.Invalid("max_tokens", apierr.CodeContextLength, "max_tokens alone is too large."), 400, apierr.TypeInvalidRequest, 0, "max_tokens alone is too large."},
	} {
		before := *c.in
		got := messagesDialect.ConvertError(c.in)
		if *c.in != before {
			t.Errorf("%v: the error itself was changed", c.in)
		}
		if got.Status != c.status || got.Type != c.kind || got.Code != c.in.Code || c.message != "" && got.Message != c.message {
			t.Errorf("%v became %v, want the status %d and the type %s: %s", c.in, got, c.status, c.kind, got.Message)
		}
		if n := got.RetryAfterSeconds(); n != c.retry && c.retry >= 0 || c.status == 529 && n < 1 {
			t.Errorf("%v: Retry-After %d, want %d", c.in, n, c.retry)
		}
	}
}

func TestDialectByPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/messages": "messages", "/v1/messages/": "messages", "/v1/messages/count_tokens": "messages", "/v1/messages/batches": "messages",
		"/v1/messagesx": "chat", "/v1/message": "chat", "/v1/chat/completions": "chat", "/v1/responses": "responses", "/": "chat", "": "chat",
	} {
		if got := DialectByPath([]byte(path)).Name; got != want {
			t.Errorf("%s has the dialect %s, want %s", path, got, want)
		}
	}
	for _, ep := range AllEndpoints {
		if DialectByPath([]byte(ep.Path)) != ep.Dialect && !strings.Contains(ep.Path, "completions") {
			t.Errorf("%s has another dialect than its endpoint", ep.Path)
		}
	}
}

// TestPromptTooLongParam checks that the error for a prompt that is too long names the member
// containing the prompt.
func TestPromptTooLongParam(t *testing.T) {
	for _, ep := range AllEndpoints {
		e := apierr.Invalid("messages", apierr.CodeContextLength, "The request exceeds the available context size.")
		want := map[string]string{
			"/v1/completions": "prompt", "/v1/embeddings": "input", "/v1/rerank": "documents", "/v1/responses": "input",
			"/v1/responses/compact": "input", "/v1/responses/input_tokens": "input",
			"/v1/images/generations": "prompt", "/v1/images/edits": "prompt", "/v1/audio/speech": "input", "/v1/audio/transcriptions": "file",
			"/v1/score": "documents", "/v1/classify": "input", "/v1/pooling": "input", "/v1/moderations": "input", "/tokenize": "prompt", "/detokenize": "tokens",
		}[ep.Path]
		if want == "" {
			want = "messages"
		}
		if got := ep.Dialect.ConvertError(e).Param; got != want {
			t.Errorf("%s: %q, want %q", ep.Path, got, want)
		}
		if e.Param != "messages" {
			t.Errorf("%s: the error itself was changed", ep.Path)
		}
	}
}

// TestShouldRetry checks that an exhausted budget stops SDKs from retrying. If running calls have
// reserved the remaining budget, SDKs may retry, because the calls may release the budget within a
// second.
func TestShouldRetry(t *testing.T) {
	for held, want := range map[bool]string{false: "false", true: ""} {
		var h fasthttp.ResponseHeader
		SetErrorHeaders(&h, apierr.QuotaExceeded(apierr.ExceededBudget{OnlyReserved: held}, time.Second))
		if got := string(h.Peek("X-Should-Retry")); got != want || string(h.Peek("Retry-After")) != "1" {
			t.Errorf("held %v: X-Should-Retry %q, Retry-After %q", held, got, h.Peek("Retry-After"))
		}
	}
}

// TestErrorHeaders_Codings checks that a 415 response lists the accepted codings if the body's
// coding is not accepted (RFC 9110, 15.5.16).
func TestErrorHeaders_Codings(t *testing.T) {
	var h fasthttp.ResponseHeader
	if SetErrorHeaders(&h, &apierr.Error{Status: 415, Codings: "gzip, zstd"}); string(h.Peek("Accept-Encoding")) != "gzip, zstd" {
		t.Errorf("Accept-Encoding is missing in %s", h.Header())
	}
}
