package browser

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/upstreams/http1/httptoken"
)

const (
	corsMethods        = "GET, HEAD, POST"
	corsDefaultHeaders = "authorization, x-api-key, content-type, anthropic-version, anthropic-beta, traceparent"
	corsExposed        = "request-id, x-request-id, x-client-request-id, retry-after, x-penstock-dropped, x-penstock-retained, " +
		"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, " +
		"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, " +
		"anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, anthropic-ratelimit-requests-reset, " +
		"anthropic-ratelimit-tokens-limit, anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset, " +
		"x-penstock-model, x-penstock-pool, x-penstock-upstream, x-penstock-code, x-penstock-attempts, x-penstock-queue-ms, " +
		"x-penstock-cached"
)

// corsAllowedHeaders lists the request headers that pages may send: the headers that the edge
// reads, and the headers that SDKs add. Generated SDKs also send headers with the prefix
// corsSDKPrefix.
var corsAllowedHeaders = map[string]bool{
	"authorization": true, "x-api-key": true, "content-type": true, "accept": true, "user-agent": true,
	"traceparent": true, "tracestate": true,
	"anthropic-version": true, "anthropic-beta": true, "anthropic-dangerous-direct-browser-access": true,
	"openai-beta": true, "openai-organization": true, "openai-project": true,
	"idempotency-key": true, "x-client-request-id": true,
	"http-referer": true, "x-title": true,
}

const (
	corsSDKPrefix        = "x-stainless-"
	corsMaxAnswerHeaders = 64 // maximum number of headers in the answer to a preflight
	corsMaxNameLen       = 64 // maximum length of a header name in bytes
)

// appendAllowedHeaders appends the headers in asked that pages may send. If asked is empty, it
// appends the headers that are usually sent.
func appendAllowedHeaders(dst, asked []byte) []byte {
	if len(asked) == 0 {
		return append(dst, corsDefaultHeaders...)
	}
	listed := map[string]bool{}
	for part := range bytes.SplitSeq(asked, []byte{','}) {
		if part = bytes.TrimSpace(part); len(part) == 0 || len(part) > corsMaxNameLen {
			continue
		}
		name := strings.ToLower(string(part))
		generated := strings.HasPrefix(name, corsSDKPrefix) && len(name) > len(corsSDKPrefix) && httptoken.IsToken(part)
		if listed[name] || !generated && !corsAllowedHeaders[name] {
			continue
		}
		if len(listed) > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, name...)
		if listed[name] = true; len(listed) == corsMaxAnswerHeaders {
			break
		}
	}
	return dst
}

// AllowedOrigin returns the value of Access-Control-Allow-Origin for a request. If the origin is
// not allowed, it returns "".
func AllowedOrigin(ctx *fasthttp.RequestCtx, origins []string) string {
	if len(origins) == 0 {
		return ""
	}
	origin := string(ctx.Request.Header.Peek(fasthttp.HeaderOrigin))
	switch {
	case origin == "":
		return ""
	case slices.Contains(origins, "*"):
		return "*"
	case slices.Contains(origins, origin):
		return origin
	}
	return ""
}

// IsPreflight reports whether a request is a CORS preflight.
func IsPreflight(ctx *fasthttp.RequestCtx) bool {
	return ctx.IsOptions() && len(ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestMethod)) > 0
}

// AnswerPreflight responds to a CORS preflight. common sets the headers common to all responses.
func AnswerPreflight(ctx *fasthttp.RequestCtx, origin string, common func(*fasthttp.ResponseHeader)) {
	h := &ctx.Response.Header
	h.Set("Access-Control-Allow-Methods", corsMethods)
	if allowed := appendAllowedHeaders(nil,
		ctx.Request.Header.Peek(fasthttp.HeaderAccessControlRequestHeaders)); len(allowed) > 0 {
		h.SetBytesV("Access-Control-Allow-Headers", allowed)
	}
	h.Set("Access-Control-Max-Age", "600")
	common(h)
	SetAllowedOrigin(h, origin)
	addVary(h, fasthttp.HeaderAccessControlRequestHeaders)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// SetAllowedOrigin lets pages with the given origin read the response.
func SetAllowedOrigin(h *fasthttp.ResponseHeader, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if origin != "*" {
		VaryByOrigin(h)
	}
}

// VaryByOrigin tells caches that a request from another origin gets other headers.
func VaryByOrigin(h *fasthttp.ResponseHeader) { addVary(h, fasthttp.HeaderOrigin) }

func addVary(h *fasthttp.ResponseHeader, name string) {
	if before := h.Peek(fasthttp.HeaderVary); len(before) > 0 {
		name = string(before) + ", " + name
	}
	h.Set(fasthttp.HeaderVary, name)
}
