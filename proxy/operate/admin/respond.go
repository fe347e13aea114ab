package admin

import (
	"encoding/json"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/endpoint"
	"penstock/translate/apierr"
)

// respondError responds with an error. It does not count the error, because the metrics only count
// errors sent to API clients.
func respondError(ctx *fasthttp.RequestCtx, err *apierr.Error) {
	d := endpoint.ChatDialect
	d.WriteError(ctx, d.ConvertError(err), endpoint.AppendNewRequestID(nil))
}

func setCommonHeaders(ctx *fasthttp.RequestCtx) {
	endpoint.SetCommonHeaders(&ctx.Response.Header, endpoint.AppendNewRequestID(nil))
}

func respondJSON(ctx *fasthttp.RequestCtx, v any) {
	setCommonHeaders(ctx)
	ctx.Response.Header.SetContentType("application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.SetBody(append(body, '\n'))
}
