package admin

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/front/plaintext"
	"penstock/proxy/operate/status"
	"penstock/proxy/running/reload"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// serveReady responds with 503 while the edge is starting or draining, or while panics recur.
func (s *Server) serveReady(ctx *fasthttp.RequestCtx) {
	setCommonHeaders(ctx)
	ctx.Response.Header.SetContentType("application/json")
	answer := Readiness{Status: "ready"}
	if s.opts.Draining() {
		answer.Status = "draining"
	} else if why := s.opts.Starting(); why != "" {
		answer = Readiness{Status: "starting", Reason: why}
	} else if where := s.opts.Guard.StormPlace(time.Now()); where != "" {
		answer = Readiness{
			Status: "failing",
			Reason: "it panics repeatedly (" + where + "); its log has the stacks",
		}
	}
	if answer.Status != "ready" {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
	}
	body, _ := json.Marshal(answer) // marshalling strings never fails
	ctx.Response.SetBody(body)
}

const maxFileNameBytes = 4096

// handleReload reloads the configuration. It responds with the changes or the problems. These
// parameters are supported:
//   - force=true applies even a configuration that leaves a model without a slot.
//   - dry_run=true only checks the configuration. If the request has a body, it checks the
//     configuration in the body.
//   - called=NAME sets the name used in messages for the configuration in the body.
//   - back=true applies the previous configuration, except for its keys.
func (s *Server) handleReload(ctx *fasthttp.RequestCtx) {
	q := reload.Request{Source: reload.SourceRequest}
	args := ctx.QueryArgs()
	for name, value := range args.All() {
		if string(name) == "called" {
			q.Called = plaintext.CleanLine(string(value[:min(len(value), maxFileNameBytes)]))
			continue
		}
		into := map[string]*bool{"force": &q.Force, "dry_run": &q.DryRun, "back": &q.Back}[string(name)]
		on, err := strconv.ParseBool(string(value))
		if into == nil || err != nil {
			respondError(ctx, apierr.Invalid(string(name), apierr.CodeInvalidValue,
				"A reload takes force=true, dry_run=true and back=true, and called=NAME for a configuration in the body."))
			return
		}
		*into = on
	}
	candidate := ctx.PostBody() // the server limits the body's size
	switch {
	case len(candidate) > 0 && !q.DryRun:
		respondError(ctx, apierr.Invalid("dry_run", apierr.CodeInvalidValue,
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

// usageHandler reports the usage by key and model. With by=user, it reports the usage by key and
// end user. With fleet=true, the report covers all edges that share the store.
func (s *Server) usageHandler(asPage bool) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		q, refusal := parseUsageQuery(ctx)
		var r *observe.UsageReport
		if refusal == nil {
			r, refusal = usageReport(s, q)
		}
		switch {
		case refusal != nil:
			respondError(ctx, refusal)
		case asPage:
			body, err := status.UsagePage(r, s.opts.Fleet.State(), status.UsageView{
				Fleet: q.fleet, ByUser: q.byUser, Users: hasEndUserUsage(s),
			})
			respondHTML(ctx, body, err)
		default:
			respondJSON(ctx, r)
		}
	}
}

func hasEndUserUsage(s *Server) bool { return s.opts.Reloads.RunningSnapshot().Secrets.EndUsers != nil }

type usageQuery struct{ fleet, byUser bool }

func parseUsageQuery(ctx *fasthttp.RequestCtx) (q usageQuery, refusal *apierr.Error) {
	named := map[string]bool{}
	for name, value := range ctx.QueryArgs().All() {
		name, value := string(name), string(value)
		on, err := strconv.ParseBool(value)
		switch {
		case name == "fleet" && err == nil && !named[name]:
			q.fleet = on
		case name == "by" && (value == "user" || value == "model") && !named[name]:
			q.byUser = value == "user"
		default:
			return q, apierr.Invalid(name, apierr.CodeInvalidValue,
				"Usage takes fleet=true, by=user and nothing else; its answer has all days.")
		}
		named[name] = true
	}
	return q, nil
}

func usageReport(s *Server, q usageQuery) (*observe.UsageReport, *apierr.Error) {
	now, of := time.Now(), (*observe.Usage).Report
	if q.byUser {
		of = (*observe.Usage).ReportUsers
		if !hasEndUserUsage(s) {
			return nil, apierr.Invalid("by", apierr.CodeInvalidValue,
				"The edge counts no end users: its configuration has no end_users.secret.")
		}
	}
	if !q.fleet {
		return of(s.opts.Calls.Usage, s.opts.Started, now), nil
	}
	if s.opts.FleetUsage == nil {
		return nil, apierr.Invalid("fleet", apierr.CodeInvalidValue,
			"The edge has no fleet.store: its own usage is at /-/usage.")
	}
	limit, cancel := context.WithTimeout(context.Background(), fleetUsageTimeout)
	defer cancel()
	rows, err := s.opts.FleetUsage.Read(limit, now, q.byUser)
	if err != nil {
		s.opts.Log.Warn("the fleet's usage cannot be read", zap.Error(err))
		return nil, apierr.New(fasthttp.StatusBadGateway, apierr.CodeUpstreamUnreachable,
			"The fleet's store does not answer with its usage. The edge's own usage is at /-/usage.")
	}
	var all observe.Usage
	since := now
	for i := range rows {
		if day := rows[i].Day; day != observe.OlderDays {
			since = time.Unix(min(since.Unix(), day*24*3600), 0).UTC()
		}
	}
	all.Restore(since, rows)
	return of(&all, since, now), nil
}

func modelArms(o *Options) []observe.ModelArms {
	models := []observe.ModelArms{}
	running := o.Reloads.RunningSnapshot()
	for i := range running.Models {
		m := &running.Models[i]
		names := routing.ArmNames(m.Route)
		if m.Shadow != nil {
			names = append(names, observe.ShadowArmName(m.Shadow.Config.ID))
		}
		if names != nil {
			models = append(models, o.Calls.ArmCounts(m.Config.ID, names...))
		}
	}
	return models
}

const fleetUsageTimeout = 5 * time.Second

// serveMetrics responds with OpenMetrics if the client accepts it, and otherwise with the text
// format.
func (s *Server) serveMetrics(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	accept := bytes.Join(ctx.Request.Header.PeekAll(fasthttp.HeaderAccept), []byte(","))
	openMetrics := observe.PrefersOpenMetrics(string(accept))
	h.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	if openMetrics {
		h.SetContentType(observe.OpenMetricsType)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Encoding")
	_ = s.opts.Exposition(ctx.Response.BodyWriter(), openMetrics) // writing to a buffer never fails
	if ctx.Request.Header.HasAcceptEncoding("gzip") {
		var packed bytes.Buffer
		w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
		_, _ = w.Write(ctx.Response.Body()) // writing to a buffer never fails
		_ = w.Close()
		ctx.Response.SetBodyRaw(packed.Bytes())
		h.SetContentEncoding("gzip")
	}
}

// handleSetMode handles POST /-/mode. If the fleet has a store, the mode applies at every edge. An
// admin token is required, because a client must not be able to remove capacity just because it can
// reach the port.
func (s *Server) handleSetMode(ctx *fasthttp.RequestCtx) {
	if !s.opts.Reloads.RunningSnapshot().Config.Admin.RequiresToken() {
		respondError(ctx, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed,
			"Upstreams are drained with the admin token only: set admin.token."))
		return
	}
	asked, isJSON, err := parseModeRequest(ctx)
	if err != nil {
		respondError(ctx, apierr.New(fasthttp.StatusBadRequest, apierr.CodeInvalidValue,
			"The body is neither a JSON object nor a form with upstream and mode: send {\"upstream\": \"NAME\", \"mode\": \"drain\"}."))
		return
	}
	mode, err := upstreams.ParseMode(asked.Mode)
	if err != nil {
		respondError(ctx, apierr.Invalid("mode", apierr.CodeInvalidValue, "The mode is one of ready, drain, maintenance."))
		return
	}
	named, near := findUpstreams(s.opts.Set.All(), asked.Upstream)
	if len(named) == 0 {
		respondError(ctx, apierr.NotFound(apierr.CodeNotFound, "There is no upstream of that name%s", cmp.Or(near, ".")))
		return
	}
	if asked.KeepLast && mode != upstreams.ModeReady {
		if ids := modelsLosingLastUpstream(s.opts.Reloads.RunningSnapshot().Models, named, time.Now()); len(ids) > 0 {
			respondError(ctx, apierr.New(fasthttp.StatusConflict, apierr.CodeOperationNotAllowed,
				"No engine would be left that takes calls for %s: add --force to do it anyway.",
				strings.Join(ids, ", ")))
			return
		}
	}
	who := requestCaller(ctx)
	if who.name == mainTokenName { // more than one person may have this token
		who.name = "the operator of " + s.opts.Name
	}
	done := ModeResult{ModeRequest: asked}
	for _, u := range named {
		done.Upstreams = append(done.Upstreams, ModeChange{u.Label(), u.Mode().String()})
		if s.opts.Board != nil {
			s.opts.Board.PublishMode(u, mode, cmp.Or(plaintext.CleanLine(asked.Who), who.name), time.Now())
		}
		u.SetMode(mode)
	}
	if isJSON {
		respondJSON(ctx, done)
		return
	}
	setCommonHeaders(ctx)
	ctx.Response.Header.Set("Location", "/")
	ctx.SetStatusCode(fasthttp.StatusSeeOther)
}

// findUpstreams returns the upstream with the given name, or the upstreams in a group
// (config.IsInUpstreamGroup). If it finds no upstream, near contains a suggestion.
func findUpstreams(all []*upstreams.Upstream, name string) (found []*upstreams.Upstream, near string) {
	var labels []string
	for _, u := range all {
		tags := upstreams.ConfiguredTags(u)
		if u.Label() == name || config.IsInUpstreamGroup(name, u.Label(), tags) {
			found = append(found, u)
		}
		labels = append(labels, u.Label())
		for _, tag := range tags {
			if tag = "tag:" + tag; !slices.Contains(labels, tag) {
				labels = append(labels, tag)
			}
		}
	}
	return found, nameSuggestion(name, labels)
}

func nameSuggestion(name string, names []string) string {
	const few = 12
	if len(names) == 0 || len(names) > few {
		return suggest.DidYouMean(name, names)
	}
	return suggest.ChoiceHint(name, names)
}

// ModeResult is the result of a ModeRequest.
type ModeResult struct {
	ModeRequest
	Upstreams []ModeChange `json:"upstreams"`
}

// ModeChange is an upstream whose mode was set.
type ModeChange struct {
	Name string `json:"name"`
	Was  string `json:"was"`
}

// ModeRequest requests a mode for an upstream or a group.
type ModeRequest struct {
	Upstream string `json:"upstream"` // a name, gpu-* for a prefix, or tag:h100 for a tag
	Mode     string `json:"mode"`
	Who      string `json:"who,omitempty"` // the operator's name; all edges of a fleet show it
	// If KeepLast is true, the edge rejects the change with a 409 if the change would leave a model
	// without an engine.
	KeepLast bool `json:"keep_last,omitempty"`
}

const maxWhoBytes = 64

var errNoModeMember = errors.New("the body has no member of the form")

// parseModeRequest parses a form from the page, or a JSON object. It ignores the Content-Type,
// because curl -d sends every body as a form.
func parseModeRequest(ctx *fasthttp.RequestCtx) (q ModeRequest, isJSON bool, err error) {
	body := bytes.TrimSpace(ctx.PostBody())
	if !bytes.HasPrefix(body, []byte("{")) {
		form := ctx.PostArgs()
		q = ModeRequest{Upstream: string(form.Peek("upstream")), Mode: string(form.Peek("mode")), Who: string(form.Peek("who"))}
		if !form.Has("upstream") && !form.Has("mode") {
			err = errNoModeMember
		}
	} else {
		isJSON, err = true, json.Unmarshal(body, &q)
	}
	q.Who = q.Who[:min(len(q.Who), maxWhoBytes)]
	return q, isJSON, err
}
