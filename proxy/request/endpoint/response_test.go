package endpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
)

// TestWriteError checks the headers of an error by its status.
func TestWriteError(t *testing.T) {
	later := apierr.New(503, apierr.CodeNoHealthyRoute, "Later.")
	later.RetryAfter = 7 * time.Second
	coding := apierr.New(415, apierr.CodeUnsupportedParameter, "No.")
	coding.Codings = "gzip"
	for _, c := range []struct {
		name, header, want string
		e                  *apierr.Error
	}{
		{"no key", "WWW-Authenticate", "Bearer", apierr.Unauthorized(apierr.CodeInvalidAPIKey)},
		{"later", "Retry-After", "7", later},
		{"coding", "Accept-Encoding", "gzip", coding},
		{"used up", "X-Should-Retry", "false", apierr.QuotaExceeded(apierr.ExceededBudget{Limit: "5", Used: "5"}, time.Hour)},
		{"reserved", "X-Should-Retry", "", apierr.QuotaExceeded(apierr.ExceededBudget{Limit: "5", Used: "4", OnlyReserved: true}, time.Second)},
		{"any", "Cache-Control", "no-store", apierr.New(400, apierr.CodeInvalidJSON, "No.")},
		{"any", "X-Request-Id", "req_1", apierr.New(400, apierr.CodeInvalidJSON, "No.")},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Response.SetBodyString("before")
		ChatDialect.WriteError(&ctx, ChatDialect.ConvertError(c.e), []byte("req_1"))
		if got := string(ctx.Response.Header.Peek(c.header)); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.name, c.header, got, c.want)
		}
		if body := string(ctx.Response.Body()); ctx.Response.StatusCode() != c.e.Status || !strings.HasPrefix(body, `{"error":{`) {
			t.Errorf("%s: got %d %s, want %d and an error", c.name, ctx.Response.StatusCode(), body, c.e.Status)
		}
	}
}
