package admin

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/endpoint"
	"penstock/translate/apierr"
)

// refuse responds with an error. It does not count the error, because the metrics count only errors
// for API clients.
func refuse(ctx *fasthttp.RequestCtx, err *apierr.Error) {
	d := endpoint.ChatDialect
	d.WriteError(ctx, d.ErrorOf(err), endpoint.AppendRequestID(nil))
}

func commonHeaders(ctx *fasthttp.RequestCtx) {
	endpoint.CommonHeaders(&ctx.Response.Header, endpoint.AppendRequestID(nil))
}

func respondJSON(ctx *fasthttp.RequestCtx, v any) {
	commonHeaders(ctx)
	ctx.Response.Header.SetContentType("application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.SetBody(append(body, '\n'))
}
