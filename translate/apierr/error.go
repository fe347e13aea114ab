package apierr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"penstock/translate/jsonx"
)

// The error types are the same for every endpoint. StatusErrorType derives the type from the
// status.
const (
	TypeInvalidRequest = "invalid_request_error" // 400 and other 4xx statuses
	TypeAuthentication = "authentication_error"  // 401
	TypePermission     = "permission_error"      // 403
	TypeNotFound       = "not_found_error"       // 404
	TypeTooLarge       = "request_too_large"     // 413
	TypeRateLimit      = "rate_limit_error"      // 429
	TypeAPI            = "api_error"             // 500, 502, 503
	TypeTimeout        = "timeout_error"         // 504
	TypeOverloaded     = "overloaded_error"      // 529
)

// Error codes, by status.
const (
	// 400.
	CodeInvalidJSON = "invalid_json"
	// The body is nested too deeply, or has too many members or values.
	CodeJSONLimit            = "json_limit"
	CodeDuplicateMember      = "duplicate_member" // a member is given twice, or spelt in another case
	CodeMissingParameter     = "missing_parameter"
	CodeInvalidType          = "invalid_type"          // a member has the wrong JSON type
	CodeInvalidValue         = "invalid_value"         // the value of a member is not allowed
	CodeUnsupportedParameter = "unsupported_parameter" // unsupported member or value
	CodeContextLength        = "context_length_exceeded"
	CodeCompactionUnreadable = "compaction_unreadable" // cannot open the sealed summary
	CodeRejectedByEngine     = "rejected_by_engine"
	CodeBadRequest           = "bad_request" // the request is not valid HTTP
	// 401.
	CodeInvalidAPIKey      = "invalid_api_key"
	CodeCredentialConflict = "credential_conflict"
	CodeCredentialInQuery  = "credential_in_query"
	// 403, 404, 405, 408, 413, 415, 429.
	CodeModelNotAllowed      = "model_not_allowed"
	CodeOperationNotAllowed  = "operation_not_allowed"
	CodeHTTPSRequired        = "https_required"
	CodeModelNotFound        = "model_not_found"
	CodeNotFound             = "not_found"
	CodeMethodNotAllowed     = "method_not_allowed"
	CodeRequestTimeout       = "request_timeout"
	CodeRequestTooLarge      = "request_too_large"
	CodeUnsupportedMediaType = "unsupported_media_type"
	CodeRefusedByHook        = "refused_by_hook" // the hook may also choose 400, 422 or 451
	CodeRateLimited          = "rate_limited"
	CodeQuotaExceeded        = "quota_exceeded" // the daily or monthly budget does not cover the call
	CodeCapacityFull         = "capacity_full"
	// 500 and above.
	CodeInternal            = "internal"
	CodeNoHealthyRoute      = "no_healthy_route"
	CodeUpstreamUnreachable = "upstream_unreachable"
	CodeUpstreamBadResponse = "upstream_bad_response"
	CodeUpstreamFailed      = "upstream_failed"
	CodeUpstreamAuth        = "upstream_auth"
	CodeGenerationTimeout   = "generation_timeout"
	CodeShuttingDown        = "shutting_down" // the edge is shutting down, not an engine
	CodeLimitsUnavailable   = "limits_unavailable"
	CodeIssuerUnavailable   = "issuer_unavailable"
	CodeKeysUnavailable     = "keys_unavailable"
	CodeHookUnavailable     = "hook_unavailable"
)

// DetailCodeThreadUnsupported is the DetailCode for a Messages request that asks the server to
// store the conversation. When SDK helpers receive this code, they send the whole conversation.
// Source: the SDK's ThreadUnsupportedRequestErrorDetails.
const DetailCodeThreadUnsupported = "thread_unsupported_request"

// StatusOverloaded is the status of a Messages error that is a 502, 503 or 504 in the other
// dialects.
const StatusOverloaded = 529

// Error is an error of the public API. Clients see all fields except Cause. The fields contain
// neither keys nor upstream addresses. All text is written by the edge, except for the sanitized
// message of an engine that rejected the request (design: 2.6). An Error does not change after it
// is returned.
type Error struct {
	Status  int
	Type    string
	Code    string
	Message string
	// The offending parameter, as a path in the edge's spelling (messages[2].content); may be
	// empty.
	Param      string
	RetryAfter time.Duration           // when to retry; 0 if unknown
	Metadata   *VisionPoolLoadMetadata // only if vision capacity is full
	Quota      *ExceededBudget         // only if a budget refuses the call
	// Accepted codings of a request body, for the Accept-Encoding header of a 415.
	Codings string
	// Details.error_code for Messages clients; if empty, the error has no details.
	DetailCode string
	Overflow   ContextOverflow // the sizes of a prompt that is too long; not rendered directly
	// The model accepts no images, or fewer than the request contains; never rendered.
	Image bool
	Cause error // for the log; never rendered
}

// VisionPoolLoadMetadata describes the load of the vision pool. All fields are rendered.
type VisionPoolLoadMetadata struct {
	RetryAfter           int    // seconds
	Modality             string // "vision"
	State                string // "saturated"
	ActiveRequests       int
	TotalConcurrency     int
	AvailableConcurrency int
}

// ExceededBudget describes a budget that refused a call. All fields except Group, Grantable and
// OnlyReserved are rendered.
type ExceededBudget struct {
	Group       string // the group that owns the budget, or "" if the budget is the key's
	Name        string // the limit, for example tokens per day
	Limit, Used string // decimal numbers
	// Remaining is the unused part of the budget. Needed is the amount that the call may use. Both
	// are decimal numbers, or empty if the budget is exhausted.
	Remaining, Needed string
	// Grantable is the share of Remaining that this edge may grant before it hears from the other
	// edges of its fleet. If Part is empty, the edge may grant all of Remaining.
	Grantable    string
	OnlyReserved bool // running calls have reserved the remainder and may release some of it at any time
	Renews       time.Time
}

func (q *ExceededBudget) budgetOwner() string {
	if q.Group != "" {
		return "The budget of the group " + q.Group
	}
	return "The key's budget"
}

// ContextOverflow contains the sizes of a request that is too long.
type ContextOverflow struct {
	Prompt, Max int  // tokens; 0 if the engine's message has no number
	Answer      int  // tokens requested for the answer; 0 if the prompt alone does not fit
	Least       bool // Prompt is a lower bound, because the engine stopped counting
}

// HasSizes reports whether both Prompt and Max are known.
func (o ContextOverflow) HasSizes() bool { return o.Prompt > 0 && o.Max > 0 }

// New returns an error with the type that StatusErrorType returns for the status. format must be a
// constant. args must not contain text from a client. Numbers and parameter names in the edge's
// spelling are allowed.
func New(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: StatusErrorType(status), Code: code, Message: fmt.Sprintf(format, args...)}
}

// StatusErrorType returns the type of an error with the given status.
func StatusErrorType(status int) string {
	switch status {
	case 401:
		return TypeAuthentication
	case 403:
		return TypePermission
	case 404:
		return TypeNotFound
	case 413:
		return TypeTooLarge
	case 429:
		return TypeRateLimit
	case 504:
		return TypeTimeout
	case StatusOverloaded:
		return TypeOverloaded
	}
	if status >= 500 {
		return TypeAPI
	}
	return TypeInvalidRequest
}

// Invalid returns a 400 about the parameter param, which may be empty. See New for args.
func Invalid(param, code, format string, args ...any) *Error {
	e := New(400, code, format, args...)
	e.Param = param
	return e
}

// BadRequest returns the 400 for a request that is not valid HTTP.
func BadRequest(message string) *Error { return New(400, CodeBadRequest, "%s", message) }

// UnsupportedHTTPVersion returns the 505 for an unsupported HTTP version. Its type is
// invalid_request_error, because the client is at fault.
func UnsupportedHTTPVersion(message string) *Error {
	return &Error{Status: 505, Type: TypeInvalidRequest, Code: CodeBadRequest, Message: message}
}

// NotFound returns a 404.
func NotFound(code, format string, args ...any) *Error {
	return New(404, code, format, args...)
}

// ModelNotFound returns the 404 for a model that does not exist. nearest is a model that the client
// may have meant, or "".
func ModelNotFound(name, nearest string) *Error {
	if len(name) > maxShownName {
		name = strings.ToValidUTF8(name[:maxShownName], "") + "…"
	}
	hint := "."
	if nearest != "" {
		hint = fmt.Sprintf(": did you mean %q?", nearest)
	}
	e := NotFound(CodeModelNotFound, "The model %q does not exist%s GET /v1/models lists the models.", name, hint)
	e.Param = "model"
	return e
}

// maxShownName limits how much of a requested name a response quotes. No model name is longer.
const maxShownName = 128

// Unauthorized returns a 401 with one of the three codes for credentials. The message is the same
// for every code.
func Unauthorized(code string) *Error {
	message := "Missing or invalid API key. Send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\"."
	switch code {
	case CodeCredentialConflict:
		message = "The request carries more than one credential. Send the API key once."
	case CodeCredentialInQuery:
		message = "Credentials in the query string are not accepted. Send the API key in a header."
	}
	return New(401, code, "%s", message)
}

// Forbidden returns a 403.
func Forbidden(code, format string, args ...any) *Error {
	return New(403, code, format, args...)
}

// ModelNotAllowed returns the 403 for a model that the key may not use.
func ModelNotAllowed() *Error {
	e := Forbidden(CodeModelNotAllowed, "This API key may not use the model.")
	e.Param = "model"
	return e
}

// TiersNotAllowed returns the 403 for a model whose upstreams all belong to tiers that the key may
// not use.
func TiersNotAllowed() *Error {
	e := ModelNotAllowed()
	e.Message = "This API key may not use the model: none of the model's upstreams is of the key's tiers."
	return e
}

// OperationNotAllowed returns the 403 for an endpoint that the key may not use.
func OperationNotAllowed() *Error {
	return Forbidden(CodeOperationNotAllowed, "This API key may not use this endpoint.")
}

// HTTPSRequired returns the 403 for a call over plain HTTP. base is the configured HTTPS URL.
func HTTPSRequired(base string) *Error {
	return Forbidden(CodeHTTPSRequired, "The API is served over https alone: call %s. "+
		"A key that was sent over plain HTTP may have been read on the way, so replace it.", base)
}

// TooLarge returns the 413 for a body that exceeds limit bytes.
func TooLarge(limit int64) *Error {
	return New(413, CodeRequestTooLarge, "The request body is larger than the limit of %d bytes.", limit)
}

// RateLimited returns the 429 for a call that exceeds a rate limit. limit names the limit, for
// example "requests per minute".
func RateLimited(limit string, retryAfter time.Duration) *Error {
	e := New(429, CodeRateLimited, "")
	e.RetryAfter = retryAfter
	e.Message = "Rate limit reached: " + limit + ". Retry after " + strconv.Itoa(max(e.RetryAfterSeconds(), 1)) + " s."
	return e
}

// QuotaExceeded returns the 429 for a budget that is exhausted, or too small for the call.
func QuotaExceeded(q ExceededBudget, retryAfter time.Duration) *Error {
	e := New(429, CodeQuotaExceeded, "%s is used up: %s of %s %s. It renews at %s.", q.budgetOwner(),
		q.Used, q.Limit, q.Name, q.Renews.UTC().Format(time.RFC3339))
	if q.Remaining != "" {
		less, advice := "", ""
		switch {
		case q.Grantable != "":
			less = ", of which this edge may give " + q.Grantable + " until it has heard of the others"
			advice = fmt.Sprintf("retry after %s, or ", strconv.Itoa(max(int((retryAfter+time.Second-1)/time.Second), 1))+" s")
		case q.OnlyReserved:
			less = " less what running calls may need"
		}
		e.Message = fmt.Sprintf("%s leaves %s of %s %s%s, and this call may need %s: "+
			"%sa smaller max_tokens may fit. It renews at %s.",
			q.budgetOwner(), q.Remaining, q.Limit, q.Name, less, q.Needed, advice, q.Renews.UTC().Format(time.RFC3339))
	}
	e.RetryAfter, e.Quota = retryAfter, &q
	return e
}

// LimitsUnavailable returns the 503 for a key whose limits cannot be looked up.
func LimitsUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeLimitsUnavailable, "The limits of the key cannot be looked up now.")
	e.RetryAfter = retryAfter
	return e
}

// IssuerUnavailable returns the 503 for a token that cannot be checked yet.
func IssuerUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeIssuerUnavailable, "The keys of the token's issuer are not known yet.")
	e.RetryAfter = retryAfter
	return e
}

// KeysUnavailable returns the 503 for an unknown key while the edge is still reading the keys.
func KeysUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeKeysUnavailable, "The edge has just started and has not read all keys yet.")
	e.RetryAfter = retryAfter
	return e
}

// HookUnavailable returns the 503 for a call on which an operator's hook made no decision.
func HookUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeHookUnavailable, "")
	e.RetryAfter = retryAfter
	e.Message = "The request could not be checked. Retry after " + strconv.Itoa(e.RetryAfterSeconds()) + " s."
	return e
}

// RefusedByHook returns the error for a call that an operator's hook refuses. Only a 429 has a
// Retry-After.
func RefusedByHook(status int, message string, retryAfter time.Duration) *Error {
	e := New(status, CodeRefusedByHook, "%s", message)
	if status == 429 {
		e.RetryAfter = retryAfter
	}
	return e
}

// InternalError returns the 500 for a fault in the edge. The cause is only logged.
func InternalError(cause error) *Error {
	e := New(500, CodeInternal, "Internal error.")
	e.Cause = cause
	return e
}

// Error returns the status, type, code and parameter, all of which may be logged. It omits the
// message, because an engine's message may quote the request.
func (e *Error) Error() string {
	s := strconv.Itoa(e.Status) + " " + e.Type + " " + e.Code
	if e.Param != "" {
		s += " (" + e.Param + ")"
	}
	return s
}

// WithParam returns a copy of e with param as the parameter. If the message starts with the old
// parameter, WithParam also replaces it in the message.
func (e *Error) WithParam(param string) *Error {
	renamed := *e
	renamed.Param = param
	if rest, ok := strings.CutPrefix(e.Message, e.Param); ok {
		renamed.Message = param + rest
	}
	return &renamed
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// RetryAfterSeconds returns RetryAfter in whole seconds, rounded up: at least 1 if RetryAfter is
// positive, otherwise 0.
func (e *Error) RetryAfterSeconds() int {
	if e.RetryAfter <= 0 {
		return 0
	}
	return int((e.RetryAfter-1)/time.Second) + 1
}

// AppendBody appends the response body for chat, Responses and audio: {"error":{…}}.
func (e *Error) AppendBody(dst []byte) []byte {
	dst = append(dst, `{"error":`...)
	dst = e.AppendObject(dst)
	return append(dst, '}')
}

// AppendMessages appends the response body for Messages:
// {"type":"error","error":{…},"request_id":…}.
func (e *Error) AppendMessages(dst []byte, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":`...)
	dst = e.AppendObject(dst)
	dst = append(dst, `,"request_id":`...)
	dst = appendNullable(dst, requestID)
	return append(dst, '}')
}

// AppendObject appends only the error object.
func (e *Error) AppendObject(dst []byte) []byte {
	dst = append(dst, `{"message":`...)
	dst = jsonx.AppendStringS(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = jsonx.AppendStringS(dst, e.Type)
	dst = append(dst, `,"code":`...)
	dst = appendNullable(dst, e.Code)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	if m := e.Metadata; m != nil {
		dst = append(dst, `,"metadata":{"retry_after":`...)
		dst = strconv.AppendInt(dst, int64(m.RetryAfter), 10)
		dst = append(dst, `,"modality":`...)
		dst = jsonx.AppendStringS(dst, m.Modality)
		dst = append(dst, `,"state":`...)
		dst = jsonx.AppendStringS(dst, m.State)
		dst = append(dst, `,"active_requests":`...)
		dst = strconv.AppendInt(dst, int64(m.ActiveRequests), 10)
		dst = append(dst, `,"total_concurrency":`...)
		dst = strconv.AppendInt(dst, int64(m.TotalConcurrency), 10)
		dst = append(dst, `,"available_concurrency":`...)
		dst = strconv.AppendInt(dst, int64(m.AvailableConcurrency), 10)
		dst = append(dst, '}')
	}
	if q := e.Quota; q != nil {
		dst = append(dst, `,"metadata":{"retry_after":`...)
		dst = strconv.AppendInt(dst, int64(e.RetryAfterSeconds()), 10)
		dst = append(dst, `,"quota":`...)
		dst = jsonx.AppendStringS(dst, q.Name)
		dst = append(dst, `,"limit":`...)
		dst = jsonx.AppendStringS(dst, q.Limit)
		dst = append(dst, `,"used":`...)
		dst = jsonx.AppendStringS(dst, q.Used)
		if q.Remaining != "" {
			dst = append(dst, `,"remaining":`...)
			dst = jsonx.AppendStringS(dst, q.Remaining)
			dst = append(dst, `,"needed":`...)
			dst = jsonx.AppendStringS(dst, q.Needed)
		}
		dst = append(dst, `,"renews_at":`...)
		dst = strconv.AppendInt(dst, q.Renews.Unix(), 10)
		dst = append(dst, '}')
	}
	if e.DetailCode != "" {
		dst = append(dst, `,"details":{"error_code":`...)
		dst = jsonx.AppendStringS(dst, e.DetailCode)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendStringS(dst, s)
}
