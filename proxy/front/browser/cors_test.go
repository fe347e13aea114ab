package browser

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestPreflightHeaders checks that a preflight response allows the headers that SDKs send from a
// browser, and no unknown headers.
func TestPreflightHeaders(t *testing.T) {
	for _, row := range []struct{ name, asked, want string }{
		{
			"OpenAI's SDK",
			"authorization,content-type,openai-organization,openai-project,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout",
			"authorization, content-type, openai-organization, openai-project, x-stainless-arch, x-stainless-lang, x-stainless-os, x-stainless-package-version, x-stainless-retry-count, x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout",
		},
		{
			"Anthropic's SDK",
			"anthropic-dangerous-direct-browser-access,anthropic-version,anthropic-beta,content-type,x-api-key,x-stainless-helper-method",
			"anthropic-dangerous-direct-browser-access, anthropic-version, anthropic-beta, content-type, x-api-key, x-stainless-helper-method",
		},
		{"blanks and case", " Authorization ,, OpenAI-Beta", "authorization, openai-beta"},
		{"twice", "openai-beta,openai-beta", "openai-beta"},
		{"unknown", "authorization,cookie,x-admin,x-stainless,x-stainless-", "authorization"},
		{"no token", "x-stainless-a b,x-stainless-a\tb,x-stainless-é", ""},
		{"nothing is asked for", "", "authorization, x-api-key, content-type, anthropic-version, anthropic-beta, traceparent"},
	} {
		if got := string(appendAllowedHeaders(nil, []byte(row.asked))); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	var many strings.Builder
	for i := range 100_000 {
		many.WriteString("x-stainless-" + strings.Repeat("a", i%100) + ",")
	}
	if got := appendAllowedHeaders(nil, []byte(many.String())); len(got) == 0 || len(got) > 64*(64+2) {
		t.Errorf("%d bytes are allowed of %d", len(got), many.Len())
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	ctx.Request.Header.Set("Access-Control-Request-Headers", "openai-beta")
	AnswerPreflight(&ctx, "https://app.example", func(*fasthttp.ResponseHeader) {})
	h := &ctx.Response.Header
	var vary []string
	for _, v := range h.PeekAll("Vary") {
		vary = append(vary, string(v))
	}
	if got := string(h.Peek("Access-Control-Allow-Headers")); got != "openai-beta" {
		t.Errorf("Access-Control-Allow-Headers = %q, want openai-beta", got)
	}
	if all := strings.Join(vary, ", "); all != "Origin, Access-Control-Request-Headers" {
		t.Errorf("Vary = %q, want Origin, Access-Control-Request-Headers", all)
	}
}
