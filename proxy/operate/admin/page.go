package admin

import (
	"bufio"
	"encoding/json"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/operate/status"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
)

// serveStatusPage serves the status page. The page is complete even without its script.
func (s *Server) serveStatusPage(ctx *fasthttp.RequestCtx) {
	part, ok := parseRowRange(ctx)
	if !ok {
		return
	}
	state := s.buildStatus(requestCaller(ctx))
	state.SelectRows(part)
	body, err := state.Page()
	respondHTML(ctx, body, err)
}

func (s *Server) serveStatusJSON(ctx *fasthttp.RequestCtx) {
	part, ok := parseRowRange(ctx)
	if !ok {
		return
	}
	state := s.buildStatus(requestCaller(ctx))
	state.SelectRows(part)
	respondJSON(ctx, state)
}

// parseRowRange reads the limit and offset parameters. If a value is not a valid number,
// parseRowRange rejects the request and returns false.
func parseRowRange(ctx *fasthttp.RequestCtx) (p status.RowRange, ok bool) {
	p = status.RowRange{Limit: status.DefaultRowLimit}
	for name, into := range map[string]*int{"limit": &p.Limit, "offset": &p.Offset} {
		value := string(ctx.QueryArgs().Peek(name))
		if value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n == 0 && into == &p.Limit {
			respondError(ctx, apierr.Invalid(name, apierr.CodeInvalidValue,
				"The state takes limit=N, how many rows of models, upstreams and keys are shown (default %d), and offset=N, how many are passed over.",
				status.DefaultRowLimit))
			return p, false
		}
		*into = n
	}
	return p, true
}

// serveCallPage serves the page about a call. If the call is unknown, the page suggests a command that
// searches the log. If the id is malformed, no page is served: otherwise, a link could put
// arbitrary text into the suggested command.
func (s *Server) serveCallPage(ctx *fasthttp.RequestCtx) {
	id, _ := ctx.UserValue("id").(string)
	state := s.buildStatus(requestCaller(ctx))
	if ended, ok := s.opts.Calls.Recent.Find(id, state.Now); ok {
		state.AddEndedCall(&ended)
	}
	body, err := state.CallPage(id)
	if err != nil || body != nil {
		respondHTML(ctx, body, err)
		return
	}
	if !acceptsHTML(&ctx.Request.Header) || !observe.IsRequestID(id) {
		respondError(ctx, apierr.NotFound(apierr.CodeNotFound,
			"The call is not remembered. %s Find its line in the log by its request_id.", status.RecordedCallsText))
		return
	}
	body, err = state.UnknownCallPage(id)
	respondHTML(ctx, body, err)
	ctx.SetStatusCode(fasthttp.StatusNotFound)
}

func (s *Server) serveRunbook(ctx *fasthttp.RequestCtx) {
	body, err := status.RenderRunbookPage(s.opts.Runbook, time.Now())
	respondHTML(ctx, body, err)
}

func respondHTML(ctx *fasthttp.RequestCtx, body []byte, err error) {
	if err != nil {
		respondError(ctx, apierr.InternalError(err))
		return
	}
	h := &ctx.Response.Header
	setCommonHeaders(ctx)
	h.SetContentType("text/html; charset=utf-8")
	h.Set("Content-Security-Policy", status.ContentSecurityPolicy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	ctx.Response.SetBody(body)
}

const (
	pageUpdateInterval = time.Second
	maxOpenPages       = 16 // maximum number of pages receiving updates at the same time
	pageWriteTimeout   = 10 * time.Second
)

// streamPageUpdates streams updates to an open page. It sends changes every second.
func (s *Server) streamPageUpdates(ctx *fasthttp.RequestCtx) {
	if site := string(ctx.Request.Header.Peek("Sec-Fetch-Site")); site == "cross-site" ||
		site == "same-site" { // reject even a navigation, because the response never ends
		respondError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Only the status page keeps itself up to date by this."))
		return
	}
	part, ok := parseRowRange(ctx)
	if !ok {
		return
	}
	if s.openPages.Add(1) > maxOpenPages {
		s.openPages.Add(-1)
		respondError(ctx, apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeCapacityFull,
			"Too many live status pages are open (%d). Reload for a snapshot.", maxOpenPages))
		return
	}
	h := &ctx.Response.Header
	setCommonHeaders(ctx)
	h.SetContentType("text/event-stream")
	conn, who := ctx.Conn(), requestCaller(ctx)
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.opts.Guard.Catch(guard.PlaceStatusPage, nil)
		defer s.openPages.Add(-1)
		s.opts.Guard.PanicIfInjected(guard.PlaceStatusPage)
		var shown status.ShownPage
		for {
			// SetWriteDeadline fails only if the connection is closed.
			_ = conn.SetWriteDeadline(time.Now().Add(pageWriteTimeout))
			if s.sendPageUpdate(w, &shown, part, who) != nil {
				return
			}
			select {
			case <-s.closing:
				return
			case <-time.After(pageUpdateInterval):
			}
		}
	})
}

func (s *Server) sendPageUpdate(w *bufio.Writer, shown *status.ShownPage, part status.RowRange, who authenticatedCaller) error {
	state := s.buildStatus(who)
	state.SelectRows(part)
	changed, err := state.PageUpdates(shown)
	if err != nil {
		return err
	}
	// The buffered writer reports write errors in Flush.
	_, _ = w.WriteString("event: sections\nretry: 2000\ndata: ")
	data := json.NewEncoder(w)
	data.SetEscapeHTML(false) // escaping would bloat the markup in this JSON, which a script parses
	err = data.Encode(struct {
		At       string                          `json:"at"`
		Sections map[string]status.SectionUpdate `json:"sections"`
	}{state.Now.Format("15:04:05"), changed})
	if err != nil {
		return err
	}
	_ = w.WriteByte('\n')
	return w.Flush()
}
