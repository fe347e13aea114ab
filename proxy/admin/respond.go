package admin

import (
	"encoding/json"
	"errors"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
)

// errPanicked is the cause of an internal error after a panic, which the guard has logged.
var errPanicked = errors.New("panic")

// refuse answers with an error. It is not counted: the metrics count the errors that clients of the
// API meet.
func (s *Server) refuse(ctx *fasthttp.RequestCtx, err *apierr.Error) { s.opts.Respond.Error(ctx, err) }

func (s *Server) respondJSON(ctx *fasthttp.RequestCtx, v any) {
	s.opts.Respond.Headers(&ctx.Response.Header)
	ctx.Response.Header.SetContentType("application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.SetBody(append(body, '\n'))
}
