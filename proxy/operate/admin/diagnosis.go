package admin

import (
	"io"

	"github.com/valyala/fasthttp"

	"penstock/proxy/build"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/process"
	"penstock/translate/apierr"
)

// processFacts is what /-/process answers.
type processFacts struct {
	Build string `json:"build"`
	process.Facts
	Descriptors int   `json:"descriptors_limit"`  // 0: unknown
	Connections int64 `json:"client_connections"` // open connections
	Affordable  int   `json:"client_connections_limit"`
}

// factsOf returns how much the process may use, for a bug report.
func factsOf(o *Options) processFacts {
	f := o.Reloads.Running().Config
	return processFacts{
		Build: build.Line(), Facts: process.Look(), Descriptors: listen.Descriptors(),
		Connections: o.Connections(), Affordable: listen.AffordableConns(f.Limits.Connections, len(f.Upstreams)),
	}
}

// profile answers with what the function write writes about the running process: only functions and
// lines.
func profile(write func(io.Writer) error) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		commonHeaders(ctx)
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if err := write(ctx.Response.BodyWriter()); err != nil {
			ctx.Response.ResetBody()
			refuse(ctx, apierr.Internal(err))
		}
	}
}
