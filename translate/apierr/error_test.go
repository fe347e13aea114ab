package apierr

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"penstock/translate/jsonx"
)

func TestAppend(t *testing.T) {
	saturated := New(429, CodeCapacityFull, "Vision capacity is full: %d of %d in use. Retry after %d s.", 4, 4, 5)
	saturated.Metadata = &VisionPoolLoadMetadata{RetryAfter: 5, Modality: "vision", State: "saturated", ActiveRequests: 4, TotalConcurrency: 4, AvailableConcurrency: 0}
	thread := Invalid("thread", CodeUnsupportedParameter, "No.")
	thread.DetailCode = DetailCodeThreadUnsupported
	for _, c := range []struct {
		name           string
		err            *Error
		chat, messages string
	}{
		{
			"details", thread,
			`{"error":{"message":"No.","type":"invalid_request_error","code":"unsupported_parameter","param":"thread","details":{"error_code":"thread_unsupported_request"}}}`,
			`{"type":"error","error":{"message":"No.","type":"invalid_request_error","code":"unsupported_parameter","param":"thread",` +
				`"details":{"error_code":"thread_unsupported_request"}},"request_id":"req_1"}`,
		},
		{
			"param", Invalid("messages[0].role", CodeInvalidValue, "messages[%d].role is none of the roles.", 0),
			`{"error":{"message":"messages[0].role is none of the roles.","type":"invalid_request_error","code":"invalid_value","param":"messages[0].role"}}`,
			`{"type":"error","error":{"message":"messages[0].role is none of the roles.","type":"invalid_request_error","code":"invalid_value","param":"messages[0].role"},"request_id":"req_1"}`,
		},
		{
			"nulls", New(500, "", "100%% ours"),
			`{"error":{"message":"100% ours","type":"api_error","code":null,"param":null}}`,
			`{"type":"error","error":{"message":"100% ours","type":"api_error","code":null,"param":null},"request_id":"req_1"}`,
		},
		{
			"metadata", saturated,
			`{"error":{"message":"Vision capacity is full: 4 of 4 in use. Retry after 5 s.","type":"rate_limit_error","code":"capacity_full","param":null,` +
				`"metadata":{"retry_after":5,"modality":"vision","state":"saturated","active_requests":4,"total_concurrency":4,"available_concurrency":0}}}`,
			`{"type":"error","error":{"message":"Vision capacity is full: 4 of 4 in use. Retry after 5 s.","type":"rate_limit_error","code":"capacity_full","param":null,` +
				`"metadata":{"retry_after":5,"modality":"vision","state":"saturated","active_requests":4,"total_concurrency":4,"available_concurrency":0}},"request_id":"req_1"}`,
		},
		{
			"an engine's message", &Error{Status: 400, Type: TypeInvalidRequest, Code: CodeRejectedByEngine, Message: "bad \"thing\"\n\xff"},
			`{"error":{"message":"bad \"thing\"\n` + "\ufffd" + `","type":"invalid_request_error","code":"rejected_by_engine","param":null}}`,
			`{"type":"error","error":{"message":"bad \"thing\"\n` + "\ufffd" + `","type":"invalid_request_error","code":"rejected_by_engine","param":null},"request_id":"req_1"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.err.AppendBody([]byte(">")); string(got) != ">"+c.chat {
				t.Errorf("got  %s\nwant >%s", got, c.chat)
			}
			if got := c.err.AppendMessages([]byte(">"), "req_1"); string(got) != ">"+c.messages {
				t.Errorf("got  %s\nwant >%s", got, c.messages)
			}
			if !json.Valid(c.err.AppendBody(nil)) || !json.Valid(c.err.AppendMessages(nil, "")) {
				t.Error("not JSON")
			}
		})
	}
}

// TestTable checks the constructors against the design's error table.
func TestTable(t *testing.T) {
	for _, c := range []struct {
		err              *Error
		status           int
		typ, code, param string
	}{
		{Invalid("store", CodeUnsupportedParameter, "store is not supported."), 400, "invalid_request_error", "unsupported_parameter", "store"},
		{Unauthorized(CodeInvalidAPIKey), 401, "authentication_error", "invalid_api_key", ""},
		{Unauthorized(CodeCredentialConflict), 401, "authentication_error", "credential_conflict", ""},
		{Unauthorized(CodeCredentialInQuery), 401, "authentication_error", "credential_in_query", ""},
		{ModelNotAllowed(), 403, "permission_error", "model_not_allowed", "model"},
		{OperationNotAllowed(), 403, "permission_error", "operation_not_allowed", ""},
		{ModelNotFound("a", ""), 404, "not_found_error", "model_not_found", "model"},
		{NotFound(CodeNotFound, "No such path."), 404, "not_found_error", "not_found", ""},
		{TooLarge(1 << 20), 413, "request_too_large", "request_too_large", ""},
		{RateLimited("requests per minute", 1500*time.Millisecond), 429, "rate_limit_error", "rate_limited", ""},
		{InternalError(io.ErrUnexpectedEOF), 500, "api_error", "internal", ""},
		{New(405, CodeMethodNotAllowed, "No."), 405, "invalid_request_error", "method_not_allowed", ""},
		{New(408, CodeRequestTimeout, "No."), 408, "invalid_request_error", "request_timeout", ""},
		{New(502, CodeUpstreamFailed, "No."), 502, "api_error", "upstream_failed", ""},
		{New(503, CodeNoHealthyRoute, "No."), 503, "api_error", "no_healthy_route", ""},
		{New(504, CodeGenerationTimeout, "No."), 504, "timeout_error", "generation_timeout", ""},
		{New(StatusOverloaded, CodeNoHealthyRoute, "No."), 529, "overloaded_error", "no_healthy_route", ""},
	} {
		e := c.err
		if e.Status != c.status || e.Type != c.typ || e.Code != c.code || e.Param != c.param || e.Message == "" {
			t.Errorf("got %+v, want %+v", *e, c)
		}
	}
	if m := RateLimited("requests per minute", 1500*time.Millisecond).Message; m != "Rate limit reached: requests per minute. Retry after 2 s." {
		t.Error(m)
	}
}

func TestError(t *testing.T) {
	cause := errors.New("dial tcp 10.0.0.11:8000: secret")
	e := InternalError(cause)
	e.Message = "CANARY"
	e.Param = "messages[1]"
	err := fmt.Errorf("decode: %w", e)
	for _, s := range []string{err.Error(), fmt.Sprintf("%v %s %+v", e, e, e), string(e.AppendMessages(e.AppendBody(nil), "x"))} {
		if strings.Contains(s, "secret") {
			t.Errorf("the cause is in %q", s)
		}
	}
	if got := e.Error(); got != "500 api_error internal (messages[1])" {
		t.Error(got)
	}
	if !errors.Is(err, cause) {
		t.Error("the cause is lost")
	}
}

func TestRetryAfterSeconds(t *testing.T) {
	for d, want := range map[time.Duration]int{
		0: 0, -time.Second: 0, 1: 1, time.Second - 1: 1, time.Second: 1, time.Second + 1: 2, time.Minute: 60, 1<<63 - 1: 9223372037,
	} {
		if got := (&Error{RetryAfter: d}).RetryAfterSeconds(); got != want {
			t.Errorf("%v: got %d, want %d", d, got, want)
		}
	}
}

func TestFromJSON(t *testing.T) {
	parse := func(src string) error { return new(jsonx.Doc).Parse([]byte(src), jsonx.Options{}) }
	var d jsonx.Doc
	if err := d.Parse([]byte(`{"Role":1}`), jsonx.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		err    error
		prefix string
		want   *Error
	}{
		{parse(`{"CANARY`), "", Invalid("", CodeInvalidJSON, "The request body is not valid JSON: unexpected end at byte 8.")},
		{parse(strings.Repeat("[", 100)), "", Invalid("", CodeJSONLimit, "The request body has more than the limit: 64 levels of nesting.")},
		{d.Root().Fields([]string{"role"}, make([]jsonx.Value, 1)), "messages[2].", Invalid("messages[2].role", CodeDuplicateMember, "messages[2].role is spelt in another case: spell it `role`.")},
		{fmt.Errorf("wrapped: %w", parse(``)), "", Invalid("", CodeInvalidJSON, "The request body is not valid JSON: unexpected end at byte 0.")},
		{io.ErrNoProgress, "", InternalError(io.ErrNoProgress)},
	} {
		if got := FromJSONError(c.err, c.prefix); !reflect.DeepEqual(got, c.want) {
			t.Errorf("FromJSONError(%v) = %+v, want %+v", c.err, *got, *c.want)
		}
	}
}

// TestModelNotFound checks that the message contains the requested name, truncated if it is too
// long, and the nearest model.
func TestModelNotFound(t *testing.T) {
	const list = " GET /v1/models lists the models."
	for _, row := range []struct{ name, nearest, want string }{
		{"lama", "", `The model "lama" does not exist.` + list},
		{"lama", "llama", `The model "lama" does not exist: did you mean "llama"?` + list},
		{"a\"\n\xff", "", `The model "a\"\n\xff" does not exist.` + list},
		{strings.Repeat("n", 127) + "é", "", `The model "` + strings.Repeat("n", 127) + `…" does not exist.` + list},
	} {
		if got := ModelNotFound(row.name, row.nearest).Message; got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	e := ModelNotFound("lama", "llama")
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = e.AppendBody(dst[:0])
	}
}

// TestQuotaExceeded checks the messages for an exhausted budget and for a budget too small for the
// call.
func TestQuotaExceeded(t *testing.T) {
	t.Parallel()
	renews := time.Unix(86400, 0)
	const end = ` It renews at 1970-01-02T00:00:00Z.","type":"rate_limit_error","code":"quota_exceeded","param":null,"metadata":{"retry_after":1,"quota":"tokens per day","limit":"300","used":`
	for _, row := range [...]struct {
		quota ExceededBudget
		want  string
	}{
		{ExceededBudget{Used: "300"}, `used up: 300 of 300 tokens per day.` + end + `"300","renews_at":86400}`},
		{ExceededBudget{Used: "244", Remaining: "56", Needed: "90"}, `leaves 56 of 300 tokens per day, and this call may need 90: a smaller max_tokens may fit.` + end + `"244","remaining":"56","needed":"90","renews_at":86400}`},
		{ExceededBudget{Used: "244", Remaining: "56", Needed: "50", OnlyReserved: true}, `leaves 56 of 300 tokens per day less what running calls may need, and this call may need 50: a smaller max_tokens may fit.` + end + `"244","remaining":"56","needed":"50","renews_at":86400}`},
		{ExceededBudget{Used: "244", Remaining: "56", Needed: "50", Grantable: "28", OnlyReserved: true}, `leaves 56 of 300 tokens per day, of which this edge may give 28 until it has heard of the others, and this call may need 50: retry after 1 s, or a smaller max_tokens may fit.` + end + `"244","remaining":"56","needed":"50","renews_at":86400}`},
	} {
		row.quota.Name, row.quota.Limit, row.quota.Renews = "tokens per day", "300", renews
		e := QuotaExceeded(row.quota, time.Second)
		if got := string(e.AppendObject(nil)); !strings.HasSuffix(got, row.want+"}") {
			t.Errorf("%s\nwant …%s}", got, row.want)
		}
	}
}
