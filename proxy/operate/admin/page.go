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

// statusPage serves the status page. The page is complete even without its script.
func (s *Server) statusPage(ctx *fasthttp.RequestCtx) {
	part, ok := partOf(ctx)
	if !ok {
		return
	}
	state := s.status(whoAsks(ctx))
	state.Show(part)
	body, err := state.Page()
	respondHTML(ctx, body, err)
}

func (s *Server) statusJSON(ctx *fasthttp.RequestCtx) {
	part, ok := partOf(ctx)
	if !ok {
		return
	}
	state := s.status(whoAsks(ctx))
	state.Show(part)
	respondJSON(ctx, state)
}

// partOf reads the limit and offset parameters. If a value is not a valid number, partOf rejects
// the request and returns false.
func partOf(ctx *fasthttp.RequestCtx) (p status.Part, ok bool) {
	p = status.Part{Limit: status.PartDefault}
	for name, into := range map[string]*int{"limit": &p.Limit, "offset": &p.Offset} {
		value := string(ctx.QueryArgs().Peek(name))
		if value == "" {
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n == 0 && into == &p.Limit {
			refuse(ctx, apierr.Invalid(name, apierr.CodeInvalidValue,
				"The state takes limit=N, how many rows of models, upstreams and keys are shown (default %d), and offset=N, how many are passed over.",
				status.PartDefault))
			return p, false
		}
		*into = n
	}
	return p, true
}

// callPage serves the page about a call. If the call is unknown, the page suggests a command that
// searches the log. If the id is malformed, no page is served, because a link must not be able to
// put text into an operator's shell.
func (s *Server) callPage(ctx *fasthttp.RequestCtx) {
	id, _ := ctx.UserValue("id").(string)
	state := s.status(whoAsks(ctx))
	if ended, ok := s.opts.Calls.Recent.Find(id, state.Now); ok {
		state.Remember(&ended)
	}
	body, err := state.CallPage(id)
	if err != nil || body != nil {
		respondHTML(ctx, body, err)
		return
	}
	if !acceptsHTML(&ctx.Request.Header) || !observe.IsID(id) {
		refuse(ctx, apierr.NotFound(apierr.CodeNotFound,
			"The call is not remembered. %s Find its line in the log by its request_id.", status.Remembered))
		return
	}
	body, err = state.ForgottenPage(id)
	respondHTML(ctx, body, err)
	ctx.SetStatusCode(fasthttp.StatusNotFound)
}

func (s *Server) runbook(ctx *fasthttp.RequestCtx) {
	body, err := status.RunbookPage(s.opts.Runbook, time.Now())
	respondHTML(ctx, body, err)
}

func respondHTML(ctx *fasthttp.RequestCtx, body []byte, err error) {
	if err != nil {
		refuse(ctx, apierr.Internal(err))
		return
	}
	h := &ctx.Response.Header
	commonHeaders(ctx)
	h.SetContentType("text/html; charset=utf-8")
	h.Set("Content-Security-Policy", status.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	ctx.Response.SetBody(body)
}

const (
	pagePeriod = time.Second
	pagesOpen  = 16 // maximum number of pages that receive updates at the same time
	pageWrite  = 10 * time.Second
)

// statusEvents streams updates to an open page. It sends changes every second.
func (s *Server) statusEvents(ctx *fasthttp.RequestCtx) {
	if site := string(ctx.Request.Header.Peek("Sec-Fetch-Site")); site == "cross-site" ||
		site == "same-site" { // reject even a navigation, because the response never ends
		refuse(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Only the status page keeps itself up to date by this."))
		return
	}
	part, ok := partOf(ctx)
	if !ok {
		return
	}
	if s.pages.Add(1) > pagesOpen {
		s.pages.Add(-1)
		refuse(ctx, apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeCapacityFull,
			"Too many live status pages are open (%d). Reload for a snapshot.", pagesOpen))
		return
	}
	h := &ctx.Response.Header
	commonHeaders(ctx)
	h.SetContentType("text/event-stream")
	conn, who := ctx.Conn(), whoAsks(ctx)
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.opts.Guard.Catch(guard.StatusPage, nil)
		defer s.pages.Add(-1)
		s.opts.Guard.Point(guard.StatusPage)
		var shown status.Shown
		for {
			// SetWriteDeadline fails only if the connection is closed.
			_ = conn.SetWriteDeadline(time.Now().Add(pageWrite))
			if s.sendSections(w, &shown, part, who) != nil {
				return
			}
			select {
			case <-s.closing:
				return
			case <-time.After(pagePeriod):
			}
		}
	})
}

func (s *Server) sendSections(w *bufio.Writer, shown *status.Shown, part status.Part, who caller) error {
	state := s.status(who)
	state.Show(part)
	changed, err := state.Renewals(shown)
	if err != nil {
		return err
	}
	// The buffered writer reports write errors in Flush.
	_, _ = w.WriteString("event: sections\nretry: 2000\ndata: ")
	data := json.NewEncoder(w)
	data.SetEscapeHTML(false) // escaping would bloat the markup in this JSON, which a script parses
	err = data.Encode(struct {
		At       string                    `json:"at"`
		Sections map[string]status.Renewal `json:"sections"`
	}{state.Now.Format("15:04:05"), changed})
	if err != nil {
		return err
	}
	_ = w.WriteByte('\n')
	return w.Flush()
}
