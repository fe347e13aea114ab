package proxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/build"
	"penstock/proxy/guard"
	"penstock/proxy/reload"
	"penstock/proxy/status"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// status gathers what the status page shows.
func (e *Edge) status() *status.Status {
	snap, now := e.reloads.Running(), e.now()
	queues := map[string]*status.Queue{}
	for i := range snap.Models {
		if m := &snap.Models[i]; m.Queue != nil {
			queues[m.Config.ID] = &status.Queue{Waiting: m.Queue.Waiting(), Depth: m.Config.Queue.Depth, Wait: m.Config.Queue.Wait.D().Seconds()}
		}
	}
	s := status.Of(&status.Input{Routes: snap.Routes, Upstreams: e.set.All(), Calls: e.services.Calls, Flights: e.callsInFlight(now), Queues: queues, Now: now})
	s.Build, s.Version, s.Since, s.Started = build.Version(), snap.Version, snap.Since, e.started
	s.Panicking = e.guard.Storm(now)
	s.Draining, s.Connections = e.draining.Load(), e.watch.Open()
	s.Operable = snap.Config.Admin.Token != ""
	s.Retries.Used, s.Retries.Allowed = e.services.Retries.State(now, snap.Config.Retry.Budget)
	for _, g := range e.reloads.Versions() {
		s.Generations = append(s.Generations, status.Generation{Version: g.Version, Since: g.Since, Calls: g.Calls()})
	}
	s.Certificate = e.certificate()
	s.LastReload = pageOf(e.reloads.Last())
	s.Judge()
	return s
}

// pageOf returns what the status page shows of r; nil when there was no reload.
func pageOf(r *reload.Result) *status.Reload {
	if r == nil {
		return nil
	}
	p := &status.Reload{
		At: r.At, Source: r.Source, OK: r.OK, Unchanged: r.Unchanged, KeysInForce: r.KeysInForce, Version: r.Version,
		Changes: r.Changes, Restart: r.Restart, Problems: r.Problems, Seconds: r.Seconds,
	}
	for _, c := range r.Capacity {
		p.Capacity = append(p.Capacity, c.String())
	}
	return p
}

// certificate is the edge's own as the status shows it; nil without TLS.
func (e *Edge) certificate() *status.Certificate {
	if e.opts.Certificate == nil {
		return nil
	}
	from, to := e.opts.Certificate.Valid()
	if to.IsZero() {
		return nil
	}
	return &status.Certificate{NotBefore: from, NotAfter: to}
}

// warnOfCertificate logs when clients will not accept the certificate in use.
func (e *Edge) warnOfCertificate() {
	if t := e.certificate().Trouble(e.now()); t != "" {
		e.log.Warn(t, zap.String("remedy", "put a new pair where tls.cert and tls.key say: it is taken up by itself"))
	}
}

// writeStatus answers with the page's JSON twin.
func (e *Edge) writeStatus(ctx *fasthttp.RequestCtx) { respondJSON(ctx, e.status()) }

// statusPage answers with the page, whole without its script.
func (e *Edge) statusPage(ctx *fasthttp.RequestCtx) {
	body, err := e.status().Page()
	if err != nil {
		adminError(ctx, internalError(err).api)
		return
	}
	h := &ctx.Response.Header
	commonHeaders(h, appendRequestID(nil))
	h.SetContentType("text/html; charset=utf-8")
	h.Set("Content-Security-Policy", status.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	ctx.Response.SetBody(body)
}

const (
	pagePeriod = time.Second
	pagesOpen  = 16 // pages that are kept up to date at a time
	pageWrite  = 10 * time.Second
)

// statusEvents keeps an open page up to date: every second it sends the sections that read
// differently now.
func (e *Edge) statusEvents(ctx *fasthttp.RequestCtx) {
	if site := string(ctx.Request.Header.Peek("Sec-Fetch-Site")); site == "cross-site" || site == "same-site" { // even as a page to look at: it never ends
		adminError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "Only the status page keeps itself up to date by this."))
		return
	}
	if e.pages.Add(1) > pagesOpen {
		e.pages.Add(-1)
		adminError(ctx, apierr.New(fasthttp.StatusServiceUnavailable, apierr.CodeCapacityFull, "As many status pages are open as are kept up to date. Reload to see the state of now."))
		return
	}
	h := &ctx.Response.Header
	commonHeaders(h, appendRequestID(nil))
	h.SetContentType("text/event-stream")
	conn := ctx.Conn()
	ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
		defer e.guard.Catch(guard.StatusPage, nil)
		defer e.pages.Add(-1)
		e.guard.Point(guard.StatusPage)
		sent := map[string]string{}
		for {
			_ = conn.SetWriteDeadline(time.Now().Add(pageWrite)) // fails on a closed connection only, and then the write says so
			if e.sendSections(w, sent) != nil {
				return
			}
			select {
			case <-e.closing:
				return
			case <-time.After(pagePeriod):
			}
		}
	})
}

// sendSections sends what differs from sent, and notes it there.
func (e *Edge) sendSections(w *bufio.Writer, sent map[string]string) error {
	s := e.status()
	changed := map[string]string{}
	for _, id := range status.Sections {
		text, err := s.Section(id)
		if err != nil {
			return err
		}
		if sent[id] != text {
			sent[id], changed[id] = text, text
		}
	}
	data, err := json.Marshal(struct {
		At       string            `json:"at"`
		Sections map[string]string `json:"sections"`
	}{s.Now.Format("15:04:05"), changed})
	if err != nil {
		return err
	}
	_, _ = w.WriteString("event: sections\nretry: 2000\ndata: ") // a buffered writer keeps its error for Flush
	_, _ = w.Write(data)
	_, _ = w.WriteString("\n\n")
	return w.Flush()
}

// modeRequested takes POST /-/mode: it drains an upstream, puts it into maintenance, or lets calls
// in again. It wants an admin token to be set, so that a client which merely reaches the port
// cannot take capacity away.
func (e *Edge) modeRequested(ctx *fasthttp.RequestCtx) {
	if e.reloads.Running().Config.Admin.Token == "" {
		adminError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "Upstreams are drained with the admin token only: set admin.token."))
		return
	}
	asked, isJSON, err := modeAsked(ctx)
	if err != nil {
		adminError(ctx, apierr.New(fasthttp.StatusBadRequest, apierr.CodeInvalidValue, "The body is neither a form nor a JSON object with upstream and mode."))
		return
	}
	mode, err := upstreams.ParseMode(asked.Mode)
	if err != nil {
		adminError(ctx, apierr.Invalid("mode", apierr.CodeInvalidValue, "The mode is one of ready, drain, maintenance."))
		return
	}
	all := e.set.All()
	i := slices.IndexFunc(all, func(u *upstreams.Upstream) bool { return u.Label() == asked.Upstream })
	if i < 0 {
		adminError(ctx, apierr.NotFound(apierr.CodeNotFound, "There is no upstream of that name."))
		return
	}
	all[i].SetMode(mode)
	if isJSON {
		respondJSON(ctx, asked)
		return
	}
	commonHeaders(&ctx.Response.Header, appendRequestID(nil))
	ctx.Response.Header.Set("Location", "/") // the page, whose form it is
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// modeRequest asks for an upstream's mode.
type modeRequest struct {
	Upstream string `json:"upstream"`
	Mode     string `json:"mode"`
}

// modeAsked reads the page's form, or a JSON object, whatever Content-Type it is sent with: curl -d
// calls everything a form.
func modeAsked(ctx *fasthttp.RequestCtx) (q modeRequest, isJSON bool, err error) {
	body := bytes.TrimSpace(ctx.PostBody())
	if !bytes.HasPrefix(body, []byte("{")) {
		form := ctx.PostArgs()
		return modeRequest{string(form.Peek("upstream")), string(form.Peek("mode"))}, false, nil
	}
	err = json.Unmarshal(body, &q)
	return q, true, err
}

// tick keeps the short history of the upstreams moving while streams run.
func (e *Edge) tick(ctx context.Context) {
	t := time.NewTicker(pagePeriod)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.guard.Point(guard.History)
			e.services.Calls.Tick(e.now())
		case <-ctx.Done():
			return
		}
	}
}
