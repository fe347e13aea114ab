package apierr

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"penstock/translate/jsonx"
)

// The types of errors, one for each class of status. Every endpoint uses the same types.
const (
	TypeInvalidRequest = "invalid_request_error" // 400 and the other statuses between 400 and 499
	TypeAuthentication = "authentication_error"  // 401
	TypePermission     = "permission_error"      // 403
	TypeNotFound       = "not_found_error"       // 404
	TypeTooLarge       = "request_too_large"     // 413
	TypeRateLimit      = "rate_limit_error"      // 429
	TypeAPI            = "api_error"             // 500, 502, 503
	TypeTimeout        = "timeout_error"         // 504
	TypeOverloaded     = "overloaded_error"      // 529
)

// The codes of an error.
const (
	// 400.
	CodeInvalidJSON          = "invalid_json"          // the body is not JSON
	CodeJSONLimit            = "json_limit"            // the body is nested too deeply, or has too many members or values
	CodeDuplicateMember      = "duplicate_member"      // a member is given twice, or spelt in another case
	CodeMissingParameter     = "missing_parameter"     // a member must be given
	CodeInvalidType          = "invalid_type"          // a member is of the wrong JSON type
	CodeInvalidValue         = "invalid_value"         // a member has a value that is not allowed
	CodeUnsupportedParameter = "unsupported_parameter" // a member, or this value of it, is not supported here
	CodeContextLength        = "context_length_exceeded"
	CodeCompactionUnreadable = "compaction_unreadable" // the summary of a conversation cannot be opened
	CodeRejectedByEngine     = "rejected_by_engine"
	CodeBadRequest           = "bad_request" // invalid as HTTP
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
	CodeRefusedByHook        = "refused_by_hook" // 400, 422 and 451, too
	CodeRateLimited          = "rate_limited"
	CodeQuotaExceeded        = "quota_exceeded" // the budget of a day or a month
	CodeCapacityFull         = "capacity_full"
	// 500 and above.
	CodeInternal            = "internal"
	CodeNoHealthyRoute      = "no_healthy_route"
	CodeUpstreamUnreachable = "upstream_unreachable"
	CodeUpstreamBadResponse = "upstream_bad_response"
	CodeUpstreamFailed      = "upstream_failed"
	CodeUpstreamAuth        = "upstream_auth"
	CodeGenerationTimeout   = "generation_timeout"
	CodeShuttingDown        = "shutting_down" // the edge, not an engine
	CodeLimitsUnavailable   = "limits_unavailable"
	CodeIssuerUnavailable   = "issuer_unavailable"
	CodeKeysUnavailable     = "keys_unavailable"
	CodeHookUnavailable     = "hook_unavailable"
)

// DetailThread is the DetailCode for a Messages request that asks for the conversation to be
// stored. The SDKs' helpers then send the whole conversation and do not ask again. Source: the
// SDK's ThreadUnsupportedRequestErrorDetails.
const DetailThread = "thread_unsupported_request"

// StatusOverloaded is the status of a Messages error where other dialects have 502, 503 or 504.
const StatusOverloaded = 529

// Error is an error of the public API. All members except Cause reach the client, so none of them
// may contain a key, the address of an upstream, or text that the edge did not write. Only the
// message may come from an engine that rejected the request, after it was cleaned (design: 2.6). An
// Error does not change once it is returned.
type Error struct {
	Status     int           // HTTP status
	Type       string        // one of the types
	Code       string        // one of the codes, or an engine's own
	Message    string        // a sentence for a human reader
	Param      string        // the offending parameter, as a path in the edge's spelling (messages[2].content); may be empty
	RetryAfter time.Duration // when to retry; 0: not stated
	Metadata   *Metadata     // only when vision capacity is full
	Quota      *Quota        // only when a budget refuses the call
	Codings    string        // accepted codings for a request body, for the Accept-Encoding header of a 415
	DetailCode string        // what a Messages client reads in details.error_code; empty: the error has no details
	Overflow   Overflow      // the numbers about a prompt that is too long; not rendered itself
	Image      bool          // the model accepts no images, or not as many; never rendered
	Cause      error         // for the log; never rendered
}

// Metadata describes the load of the vision pool. All members are rendered.
type Metadata struct {
	RetryAfter           int    // seconds
	Modality             string // "vision"
	State                string // "saturated"
	ActiveRequests       int
	TotalConcurrency     int
	AvailableConcurrency int
}

// Quota describes a budget. All members except Group, Part and Held are rendered, as metadata.
type Quota struct {
	Group       string // whose budget it is; "": the key's own
	Name        string // such as tokens per day
	Limit, Used string // decimal numbers
	// Remaining is the amount that is left, and Needed is the amount that the call may need. Both
	// are decimal numbers, and empty if the budget is used up.
	Remaining, Needed string
	// Part is the share of Remaining that this edge of a fleet may grant until it hears from the
	// other edges; empty: all of it.
	Part   string
	Held   bool // running calls have reserved the remainder and may return some at any moment
	Renews time.Time
}

// whose returns the subject of the sentence about the budget.
func (q *Quota) whose() string {
	if q.Group != "" {
		return "The budget of the group " + q.Group
	}
	return "The key's budget"
}

// Overflow holds the sizes of a request that is too long, for the dialect whose error states them.
type Overflow struct {
	Prompt, Max int  // tokens; 0: not in the engine's message
	Answer      int  // tokens requested for the answer, if the prompt itself fits; 0: it is too long
	Least       bool // Prompt is a lower bound, because counting stopped
}

// Known reports whether the engine's message has both numbers.
func (o Overflow) Known() bool { return o.Prompt > 0 && o.Max > 0 }

// New returns an error with the type for the status. The message must be the edge's own: format
// must be a constant, and args must not contain text from a client, such as a parameter's value.
// Numbers and parameter names in the edge's spelling are allowed.
func New(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Type: TypeOf(status), Code: code, Message: fmt.Sprintf(format, args...)}
}

// TypeOf returns the type of an error with the given status.
func TypeOf(status int) string {
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

// Invalid returns a 400 about the parameter param, which may be empty. The rules of New for args
// also apply to Invalid.
func Invalid(param, code, format string, args ...any) *Error {
	e := New(400, code, format, args...)
	e.Param = param
	return e
}

// BadRequest returns the 400 for a request that is invalid as HTTP.
func BadRequest(message string) *Error { return New(400, CodeBadRequest, "%s", message) }

// HTTPVersion returns the 505 for an HTTP version that the edge does not support. Its type blames
// the client although the status is a 5xx.
func HTTPVersion(message string) *Error {
	return &Error{Status: 505, Type: TypeInvalidRequest, Code: CodeBadRequest, Message: message}
}

// NotFound returns a 404.
func NotFound(code, format string, args ...any) *Error {
	return New(404, code, format, args...)
}

// ModelNotFound returns the 404 for a name that no model has. The message repeats at most
// maxShownName bytes of the name. nearest is a model that the client may have meant, or empty.
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

// maxShownName is longer than any model name. It keeps long text from the body out of the answer.
const maxShownName = 128

// Unauthorized returns a 401 with one of the three codes for credentials. Its message is the same
// for a missing, wrong, expired or inactive key.
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

// TiersNotAllowed returns the 403 for a model that has no upstream in the key's tiers.
func TiersNotAllowed() *Error {
	e := ModelNotAllowed()
	e.Message = "This API key may not use the model: none of the model's upstreams is of the key's tiers."
	return e
}

// OperationNotAllowed returns the 403 for an endpoint that the key may not use.
func OperationNotAllowed() *Error {
	return Forbidden(CodeOperationNotAllowed, "This API key may not use this endpoint.")
}

// HTTPSRequired returns the 403 for a call over plain HTTP. base is the configured URL to call.
func HTTPSRequired(base string) *Error {
	return Forbidden(CodeHTTPSRequired, "The API is served over https alone: call %s. "+
		"A key that was sent over plain HTTP may have been read on the way, so replace it.", base)
}

// TooLarge returns the 413 for a body of more than limit bytes.
func TooLarge(limit int64) *Error {
	return New(413, CodeRequestTooLarge, "The request body is larger than the limit of %d bytes.", limit)
}

// RateLimited returns the 429 for a key's limit. limit names that limit in the edge's words:
// "requests per minute". The message says when to retry.
func RateLimited(limit string, retryAfter time.Duration) *Error {
	e := New(429, CodeRateLimited, "")
	e.RetryAfter = retryAfter
	e.Message = "Rate limit reached: " + limit + ". Retry after " + strconv.Itoa(max(e.RetryAfterSeconds(), 1)) + " s."
	return e
}

// QuotaExceeded returns the 429 for a key's budget that is used up or has too little left for the
// call.
func QuotaExceeded(q Quota, retryAfter time.Duration) *Error {
	e := New(429, CodeQuotaExceeded, "%s is used up: %s of %s %s. It renews at %s.", q.whose(),
		q.Used, q.Limit, q.Name, q.Renews.UTC().Format(time.RFC3339))
	if q.Remaining != "" {
		less, advice := "", ""
		switch {
		case q.Part != "":
			less = ", of which this edge may give " + q.Part + " until it has heard of the others"
			advice = fmt.Sprintf("retry after %s, or ", strconv.Itoa(max(int((retryAfter+time.Second-1)/time.Second), 1))+" s")
		case q.Held:
			less = " less what running calls may need"
		}
		e.Message = fmt.Sprintf("%s leaves %s of %s %s%s, and this call may need %s: "+
			"%sa smaller max_tokens may fit. It renews at %s.",
			q.whose(), q.Remaining, q.Limit, q.Name, less, q.Needed, advice, q.Renews.UTC().Format(time.RFC3339))
	}
	e.RetryAfter, e.Quota = retryAfter, &q
	return e
}

// LimitsUnavailable returns the 503 for a key whose limits cannot be looked up, if the operator
// wants such calls refused.
func LimitsUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeLimitsUnavailable, "The limits of the key cannot be looked up now.")
	e.RetryAfter = retryAfter
	return e
}

// IssuerUnavailable returns the 503 for a token that cannot be checked yet, because the issuer's
// keys are still being fetched, or fetched again.
func IssuerUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeIssuerUnavailable, "The keys of the token's issuer are not known yet.")
	e.RetryAfter = retryAfter
	return e
}

// KeysUnavailable returns the 503 for an unknown key while the edge, which has just started, has
// not yet read all keys.
func KeysUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeKeysUnavailable, "The edge has just started and has not read all keys yet.")
	e.RetryAfter = retryAfter
	return e
}

// HookUnavailable returns the 503 for a call for which an operator's hook gave no decision.
func HookUnavailable(retryAfter time.Duration) *Error {
	e := New(503, CodeHookUnavailable, "")
	e.RetryAfter = retryAfter
	e.Message = "The request could not be checked. Retry after " + strconv.Itoa(e.RetryAfterSeconds()) + " s."
	return e
}

// RefusedByHook returns the refusal by an operator's hook, which has chosen the status and the
// message. A 429 says when to retry.
func RefusedByHook(status int, message string, retryAfter time.Duration) *Error {
	e := New(status, CodeRefusedByHook, "%s", message)
	if status == 429 {
		e.RetryAfter = retryAfter
	}
	return e
}

// Internal returns the 500 for a problem with the edge itself. The cause is for the log.
func Internal(cause error) *Error {
	e := New(500, CodeInternal, "Internal error.")
	e.Cause = cause
	return e
}

// Error returns the status, type, code and parameter, which may be logged. It omits the message,
// because an engine's message about a rejected request may quote the request. It also omits the
// cause, which is logged separately.
func (e *Error) Error() string {
	s := strconv.Itoa(e.Status) + " " + e.Type + " " + e.Code
	if e.Param != "" {
		s += " (" + e.Param + ")"
	}
	return s
}

// Renamed returns a copy of e about the member param. The new name replaces the old one at the
// start of the message.
func (e *Error) Renamed(param string) *Error {
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

// Append appends the answer's body in the format of chat, Responses and audio: {"error":{…}}.
func (e *Error) Append(dst []byte) []byte {
	dst = append(dst, `{"error":`...)
	dst = e.AppendObject(dst)
	return append(dst, '}')
}

// AppendMessages appends the body in the format of the Messages API:
// {"type":"error","error":{…},"request_id":…}.
func (e *Error) AppendMessages(dst []byte, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":`...)
	dst = e.AppendObject(dst)
	dst = append(dst, `,"request_id":`...)
	dst = appendNullable(dst, requestID)
	return append(dst, '}')
}

// AppendObject appends only the error object, for events that contain one.
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
