package admin

import (
	"io"

	"github.com/valyala/fasthttp"

	"penstock/proxy/build"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/process"
	"penstock/translate/apierr"
)

type processFacts struct {
	Build string `json:"build"`
	process.ResourceFacts
	Descriptors int   `json:"descriptors_limit"` // limit on open descriptors; 0 if unknown
	Connections int64 `json:"client_connections"`
	Affordable  int   `json:"client_connections_limit"`
}

func collectProcessFacts(o *Options) processFacts {
	f := o.Reloads.RunningSnapshot().Config
	return processFacts{
		Build: build.VersionLine(), ResourceFacts: process.CurrentFacts(), Descriptors: listen.DescriptorLimit(),
		Connections: o.Connections(), Affordable: listen.AffordableConns(f.Limits.Connections, len(f.Upstreams)),
	}
}

// profileHandler serves the output of write. The output contains only the process's function names
// and line numbers.
func profileHandler(write func(io.Writer) error) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		setCommonHeaders(ctx)
		ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
		ctx.Response.Header.Set("Cache-Control", "no-store")
		if err := write(ctx.Response.BodyWriter()); err != nil {
			ctx.Response.ResetBody()
			respondError(ctx, apierr.InternalError(err))
		}
	}
}
