package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/observe"
	"penstock/proxy/plaintext"
	"penstock/proxy/reload"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// ready reports whether a balancer may send new requests: 503 while draining, and while a panic
// comes again and again.
func (s *Server) ready(ctx *fasthttp.RequestCtx) {
	commonHeaders(ctx)
	ctx.Response.Header.SetContentType("application/json")
	answer := Readiness{Status: "ready"}
	if s.opts.Draining() {
		answer.Status = "draining"
	} else if why := s.opts.Starting(); why != "" {
		answer = Readiness{Status: "starting", Reason: why}
	} else if where := s.opts.Guard.Storm(time.Now()); where != "" {
		answer = Readiness{
			Status: "failing",
			Reason: "it panics again and again (" + where + "); its log has the stacks",
		}
	}
	if answer.Status != "ready" {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	body, _ := json.Marshal(answer) // strings alone
	ctx.Response.SetBody(body)
}

// reload reloads and answers with what changed, or with what is wrong. ?force=true applies
// a configuration that leaves a model without a slot, ?dry_run=true applies nothing. A dry run
// looks at the configuration in its body, if it has one.
func (s *Server) reload(ctx *fasthttp.RequestCtx) {
	q := reload.Request{Source: reload.SourceRequest}
	args := ctx.QueryArgs()
	for name, value := range args.All() {
		into := map[string]*bool{"force": &q.Force, "dry_run": &q.DryRun}[string(name)]
		on, err := strconv.ParseBool(string(value))
		if into == nil || err != nil {
			refuse(ctx, apierr.Invalid(string(name), apierr.CodeInvalidValue,
				"A reload takes force=true and dry_run=true, and nothing else."))
			return
		}
		*into = on
	}
	candidate := ctx.PostBody() // the server bounds it
	switch {
	case len(candidate) > 0 && !q.DryRun:
		refuse(ctx, apierr.Invalid("dry_run", apierr.CodeInvalidValue,
			"A configuration in the body is only compared with the running one: send it with dry_run=true. To apply it, write it to the edge's file."))
		return
	case len(candidate) > 0:
		q.Candidate = candidate
	}
	r := s.opts.Reloads.Reload(q)
	if !r.OK {
		ctx.SetStatusCode(fasthttp.StatusUnprocessableEntity)
	}
	respondJSON(ctx, r)
}

// usage answers with the account of keys and models: of this edge, or with ?fleet=true of all that
// share its store.
func (s *Server) usage(ctx *fasthttp.RequestCtx) {
	now := time.Now()
	fleet, named := false, false
	for name, value := range ctx.QueryArgs().All() {
		on, err := strconv.ParseBool(string(value))
		if string(name) != "fleet" || err != nil || named {
			refuse(ctx, apierr.Invalid(string(name), apierr.CodeInvalidValue,
				"Usage takes fleet=true and nothing else; its answer has all days."))
			return
		}
		fleet, named = on, true
	}
	if !fleet {
		respondJSON(ctx, s.opts.Calls.Usage.Report(s.opts.Started, now))
		return
	}
	if s.opts.FleetUsage == nil {
		refuse(ctx, apierr.Invalid("fleet", apierr.CodeInvalidValue,
			"The edge has no fleet.store: its own usage is at /-/usage."))
		return
	}
	limit, cancel := context.WithTimeout(context.Background(), fleetUsageTimeout)
	defer cancel()
	rows, err := s.opts.FleetUsage.Read(limit, now)
	if err != nil {
		s.opts.Log.Warn("the fleet's usage cannot be read", zap.Error(err))
		refuse(ctx, apierr.New(fasthttp.StatusBadGateway, apierr.CodeUpstreamUnreachable,
			"The fleet's store does not answer with its usage. The edge's own usage is at /-/usage."))
		return
	}
	var all observe.Usage
	since := now
	for i := range rows {
		if day := rows[i].Day; day != observe.DayBefore {
			since = time.Unix(min(since.Unix(), day*24*3600), 0).UTC()
		}
	}
	all.Restore(since, rows)
	respondJSON(ctx, all.Report(since, now))
}

// fleetUsageTimeout bounds how long an operator waits for the store.
const fleetUsageTimeout = 5 * time.Second

// metrics answers with the metrics in the text format.
func (s *Server) metrics(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	_ = s.opts.Exposition(ctx.Response.BodyWriter()) // a buffer takes everything
}

// mode takes POST /-/mode: it drains an upstream, puts it into maintenance, or lets calls in again,
// at every edge of a fleet with a store. It wants an admin token to be set, so that a client which
// merely reaches the port cannot take capacity away.
func (s *Server) mode(ctx *fasthttp.RequestCtx) {
	if s.opts.Reloads.Running().Config.Admin.Token == "" {
		refuse(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Upstreams are drained with the admin token only: set admin.token."))
		return
	}
	asked, isJSON, err := modeAsked(ctx)
	if err != nil {
		refuse(ctx, apierr.New(fasthttp.StatusBadRequest, apierr.CodeInvalidValue,
			"The body is neither a form nor a JSON object with upstream and mode."))
		return
	}
	mode, err := upstreams.ParseMode(asked.Mode)
	if err != nil {
		refuse(ctx, apierr.Invalid("mode", apierr.CodeInvalidValue, "The mode is one of ready, drain, maintenance."))
		return
	}
	all := s.opts.Set.All()
	i := slices.IndexFunc(all, func(u *upstreams.Upstream) bool { return u.Label() == asked.Upstream })
	if i < 0 {
		refuse(ctx, apierr.NotFound(apierr.CodeNotFound, "There is no upstream of that name."))
		return
	}
	all[i].SetMode(mode)
	if s.opts.Board != nil {
		s.opts.Board.SetMode(all[i].ID(), mode, cmp.Or(plaintext.Line(asked.Who), "the operator of "+s.opts.Name), time.Now())
	}
	if isJSON {
		respondJSON(ctx, asked)
		return
	}
	commonHeaders(ctx)
	ctx.Response.Header.Set("Location", "/") // the page, whose form it is
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// ModeRequest asks for an upstream's mode.
type ModeRequest struct {
	Upstream string `json:"upstream"`
	Mode     string `json:"mode"`
	Who      string `json:"who,omitempty"` // asks for it: in a fleet every edge shows it
}

// maxWho bounds the name of who asks for a mode.
const maxWho = 64

// modeAsked reads the page's form, or a JSON object, whatever Content-Type it is sent with: curl -d
// calls everything a form.
func modeAsked(ctx *fasthttp.RequestCtx) (q ModeRequest, isJSON bool, err error) {
	body := bytes.TrimSpace(ctx.PostBody())
	if !bytes.HasPrefix(body, []byte("{")) {
		form := ctx.PostArgs()
		q = ModeRequest{string(form.Peek("upstream")), string(form.Peek("mode")), string(form.Peek("who"))}
	} else {
		isJSON, err = true, json.Unmarshal(body, &q)
	}
	q.Who = q.Who[:min(len(q.Who), maxWho)]
	return q, isJSON, err
}
