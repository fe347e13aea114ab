package rig

import (
	"encoding/json"
	"strconv"
)

// APIError is the contract's error object.
type APIError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     string          `json:"code"`
	Param    *string         `json:"param"`
	Metadata json.RawMessage `json:"metadata"`
}

// Refusal is an error response as the chat dialect defines it. In Messages, every engine failure is
// a 529.
type Refusal struct {
	Status     int
	Kind, Code string
	After      string // Retry-After; if empty, any value that is valid for the status
}

// The refusals that clients receive for failing engines.
var (
	RefusalUnreachable   = Refusal{502, "api_error", "upstream_unreachable", ""}
	RefusalBadResponse   = Refusal{502, "api_error", "upstream_bad_response", ""}
	RefusalEngineFailed  = Refusal{502, "api_error", "upstream_failed", ""}
	RefusalEngineAuth    = Refusal{502, "api_error", "upstream_auth", ""}
	RefusalNoRoute       = Refusal{503, "api_error", "no_healthy_route", ""}
	RefusalTooSlow       = Refusal{504, "timeout_error", "generation_timeout", ""}
	RefusalCapacityFull  = Refusal{429, "rate_limit_error", "capacity_full", ""}
	RefusalByEngine      = Refusal{400, "invalid_request_error", "rejected_by_engine", ""}
	RefusalBodyTooLarge  = Refusal{413, "request_too_large", "request_too_large", ""}
	RefusalContextTooBig = Refusal{400, "invalid_request_error", "context_length_exceeded", ""}
)

// InDialect returns the refusal as the given dialect defines it.
func (want Refusal) InDialect(dialect string) Refusal {
	if dialect == "messages" && (want.Status == 502 || want.Status == 503 || want.Status == 504) {
		want.Status, want.Kind = 529, "overloaded_error"
	}
	return want
}

// WantRefused checks an error response as a client of the dialect reads it. The response must not
// contain internal terms, and must have a Retry-After if and only if the status requires one.
func (r *Reply) WantRefused(w RequestType, want Refusal) *APIError {
	r.T.Helper()
	e, messages := r.wantErrorRecord(want.InDialect(w.Dialect))
	if messages != (w.Dialect == "messages") {
		r.T.Errorf("the shape is another dialect's: %s", r.Body)
	}
	return e
}

// WantError is like WantRefused, but the request's path determines the dialect.
func (r *Reply) WantError(status int, kind, code string) *APIError {
	r.T.Helper()
	e, _ := r.wantErrorRecord(Refusal{Status: status, Kind: kind, Code: code})
	return e
}

// wantErrorRecord checks everything except the dialect. messages reports whether the error has the
// format of Messages.
func (r *Reply) wantErrorRecord(want Refusal) (record *APIError, messages bool) {
	r.T.Helper()
	r.WantStatus(want.Status)
	if r.Err != nil {
		r.T.Errorf("the answer is not whole: %v", r.Err)
	}
	var e struct {
		Type      string    `json:"type"`
		Error     *APIError `json:"error"`
		RequestID string    `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(r.Body), &e); err != nil || e.Error == nil {
		r.T.Fatalf("the error is not the contract's record: %q", r.Body)
	}
	if e.Error.Type != want.Kind || e.Error.Code != want.Code {
		r.T.Errorf("error is %s / %s, want %s / %s: %s", e.Error.Type, e.Error.Code, want.Kind, want.Code, e.Error.Message)
	}
	id := r.Header.Get("X-Request-Id")
	if id == "" || id != r.Header.Get("Request-Id") {
		r.T.Errorf("request ids %q and %q", id, r.Header.Get("Request-Id"))
	}
	if messages = e.Type == "error"; messages && e.RequestID != id || !messages && e.Type != "" {
		r.T.Errorf("the record is of no dialect: %s", r.Body)
	}
	if e.Error.Message == "" {
		r.T.Error("the error has no message")
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		r.T.Errorf("Content-Type %q", ct)
	}
	if r.Header.Get("Content-Length") != strconv.Itoa(len(r.Body)) {
		r.T.Errorf("Content-Length %q for %d bytes", r.Header.Get("Content-Length"), len(r.Body))
	}
	r.wantRetryAfter(want)
	WantNoLeak(r.T, "the answer", r.Body, "127.0.0.1:")
	return e.Error, messages
}

func (r *Reply) wantRetryAfter(want Refusal) {
	r.T.Helper()
	after := r.Header.Get("Retry-After")
	if want.After != "" && after != want.After {
		r.T.Errorf("Retry-After is %q, want %q", after, want.After)
	}
	switch n, err := strconv.Atoi(after); want.Status {
	case 429, 503, 504, 529:
		if err != nil || n < 1 || n > 60 {
			r.T.Errorf("Retry-After is %q, want an integer from 1 to 60", after)
		}
	default:
		if after != "" {
			r.T.Errorf("Retry-After %q on a %d", after, want.Status)
		}
	}
}
