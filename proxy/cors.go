package proxy

import (
	"slices"

	"github.com/valyala/fasthttp"
)

// Keys do not belong in browsers, so by default no origin may call from one. An operator who knows better lists origins;
// credentials (cookies) are never allowed, since the API has none.

const (
	corsMethods = "GET, HEAD, POST"
	corsHeaders = "authorization, x-api-key, content-type, anthropic-version, anthropic-beta, traceparent"
	corsExposed = "request-id, x-request-id, retry-after, " +
		"x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, " +
		"x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, " +
		"anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, anthropic-ratelimit-requests-reset, " +
		"anthropic-ratelimit-tokens-limit, anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset, " +
		"x-penstock-model, x-penstock-pool, x-penstock-upstream, x-penstock-code, x-penstock-attempts, x-penstock-queue-ms"
)

// allowedOrigin returns what Access-Control-Allow-Origin says to this request, or empty.
func allowedOrigin(ctx *fasthttp.RequestCtx, origins []string) string {
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

// preflight answers a browser's question before the request proper, for a path that exists.
func preflight(ctx *fasthttp.RequestCtx, origin string) {
	h := &ctx.Response.Header
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", "600")
	commonHeaders(h, appendRequestID(nil))
	shareWith(h, origin)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}

// shareWith lets pages of origin read the answer.
func shareWith(h *fasthttp.ResponseHeader, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsExposed)
	if origin != "*" {
		h.Add("Vary", "Origin")
	}
}
