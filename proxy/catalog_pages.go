package proxy

import (
	"bytes"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/running/catalog"
	"penstock/proxy/running/snapshot"
	"penstock/translate/apierr"
)

// Catalog requests and health checks are not calls. They take no lease, reach no engine and have no
// access log line.

// models answers GET /v1/models. It needs a key only if the configuration says so. A valid key
// narrows the list to that key's models, and a wrong key is refused. If an agent's header or query
// requests further members, they are added.
func (p *publicAPI) models(ctx *fasthttp.RequestCtx) {
	snap, key, ok := p.optionalKey(ctx)
	if !ok {
		return
	}
	v := catalog.View{
		Scope: catalog.Public, Allow: func(string) bool { return true },
		Messages: wantsMessages(ctx), Codex: ctx.QueryArgs().Has("client_version"),
	}
	if key != nil {
		v.Scope, v.Template = scopeOf(key)
		v.Allow = func(id string) bool {
			m, found := snap.ModelByID(id)
			return found && snap.MayUse(key, m)
		}
	}
	if v.Messages {
		if err := readPage(ctx.QueryArgs(), &v); err != nil {
			p.refusePage(ctx, err)
			return
		}
	}
	page, err := snap.Catalog.List(&v, time.Now())
	p.respondPage(ctx, key, page, err)
}

// scopeOf returns the catalog scope of a key, and the id of the key whose rights it has.
func scopeOf(key *auth.Key) (scope, template string) {
	if key == nil {
		return catalog.Public, ""
	}
	if key.Template != nil {
		template = key.Template.ID
	}
	return key.ID, template
}

// wantsMessages reports whether a client of Anthropic's API requests the catalog.
func wantsMessages(ctx *fasthttp.RequestCtx) bool {
	return len(ctx.Request.Header.Peek("Anthropic-Version")) > 0
}

// refusePage answers a catalog request with an error, in the dialect of the requested list.
func (p *publicAPI) refusePage(ctx *fasthttp.RequestCtx, err *apierr.Error) {
	d := endpoint.ModelsDialect
	if wantsMessages(ctx) {
		d = endpoint.ModelsForMessages
	}
	p.respondError(ctx, d, err)
}

// readPage reads from the query which page of the list a client of Anthropic's API requests.
func readPage(q *fasthttp.Args, v *catalog.View) *apierr.Error {
	v.After, v.Before = string(q.Peek("after_id")), string(q.Peek("before_id"))
	if !q.Has("limit") {
		return nil
	}
	n, err := strconv.Atoi(string(q.Peek("limit")))
	if err != nil || n < 1 || n > catalog.MaxLimit {
		return apierr.Invalid("limit", apierr.CodeInvalidValue, "limit must be an integer from 1 to %d.", catalog.MaxLimit)
	}
	v.Limit = n
	return nil
}

// modelByID answers GET /v1/models/{id}. Ids may hold slashes, escaped or not.
func (p *publicAPI) modelByID(ctx *fasthttp.RequestCtx) {
	snap, key, ok := p.optionalKey(ctx)
	if !ok {
		return
	}
	id := string(ctx.URI().PathOriginal()[len("/v1/models/"):])
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	m, found := snap.Lookup([]byte(id))
	if !found || key != nil && !snap.MayUse(key, m) {
		p.refusePage(ctx, apierr.ModelNotFound(id, snap.NearestModel(id, key)))
		return
	}
	v := catalog.View{Messages: wantsMessages(ctx)}
	v.Scope, v.Template = scopeOf(key)
	page, err := snap.Catalog.Model(id, m.Route.Index, &v, time.Now())
	p.respondPage(ctx, key, page, err)
}

// optionalKey checks a request's credential if it has one or needs one. If ok is false, optionalKey
// has already answered the request.
func (p *publicAPI) optionalKey(ctx *fasthttp.RequestCtx) (snap *snapshot.Snapshot, key *auth.Key, ok bool) {
	snap = p.services.Current()
	key, err := snap.Authenticate(&ctx.Request.Header, ctx.URI().QueryString(), listen.SenderOf(ctx.Conn()), time.Now())
	if err == nil && key == nil && !snap.Config.Catalog.Public && !snap.Open() {
		err = apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	}
	if err != nil {
		p.refusePage(ctx, asAPIError(err))
		return nil, nil, false
	}
	return snap, key, true
}

func asAPIError(err error) *apierr.Error {
	var a *apierr.Error
	if !errors.As(err, &a) {
		a = apierr.Internal(err)
	}
	return a
}

func (p *publicAPI) respondPage(ctx *fasthttp.RequestCtx, key *auth.Key, page *catalog.Page, err error) {
	if err != nil {
		p.refusePage(ctx, asAPIError(err))
		return
	}
	h := &ctx.Response.Header
	endpoint.CommonHeaders(h, endpoint.AppendRequestID(nil))
	// The public list also varies: a cache must not serve it to a key with its own list, or to a
	// client that reads another dialect.
	h.Set("Vary", "Authorization, x-api-key, anthropic-version")
	if key != nil {
		h.Set("Cache-Control", "private, max-age=15")
	} else {
		h.Set("Cache-Control", "public, max-age=15")
	}
	respondCached(ctx, "application/json", page.ETag, page.Body)
}

// respondCached answers with body, or with 304 if the client already has it. body is shared and not
// copied.
func respondCached(ctx *fasthttp.RequestCtx, contentType, etag string, body []byte) {
	ctx.Response.Header.Set("ETag", etag)
	if hasCurrent(ctx.Request.Header.Peek("If-None-Match"), etag) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	ctx.Response.Header.SetContentType(contentType)
	ctx.Response.SetBodyRaw(body)
}

// hasCurrent reports whether an If-None-Match header names etag. The header is a star or a list of
// tags, each strong or weak. The comparison is the weak one (RFC 9110, 13.1.2). Our tags contain no
// comma.
func hasCurrent(ifNoneMatch []byte, etag string) bool {
	etag = strings.TrimPrefix(etag, "W/")
	for tag := range bytes.SplitSeq(ifNoneMatch, []byte{','}) {
		tag = bytes.TrimPrefix(bytes.TrimSpace(tag), []byte("W/"))
		if string(tag) == etag || string(tag) == "*" {
			return true
		}
	}
	return false
}

// health answers GET /health. It shows only that the edge is alive.
func (p *publicAPI) health(ctx *fasthttp.RequestCtx) {
	endpoint.CommonHeaders(&ctx.Response.Header, endpoint.AppendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"status":"ok"}`)
}

// root lists the main paths, for a person who opens the address in a browser.
func (p *publicAPI) root(ctx *fasthttp.RequestCtx) {
	endpoint.CommonHeaders(&ctx.Response.Header, endpoint.AppendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"service":"penstock","base_url":"/v1","models":"/v1/models","health":"/health",` +
		`"openapi":"/openapi.json"}`)
}

// headRoot answers HEAD /. Clients use it to check that the host answers.
func (p *publicAPI) headRoot(ctx *fasthttp.RequestCtx) {
	endpoint.CommonHeaders(&ctx.Response.Header, endpoint.AppendRequestID(nil))
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}
