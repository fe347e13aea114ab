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

// Catalog requests and health checks are not calls: they require no lease and have no access log
// line.

// serveModelList handles GET /v1/models. It requires a key only if the configuration requires one. If
// the request has a valid key, the list contains only the key's models. A wrong key is rejected.
func (p *publicAPI) serveModelList(ctx *fasthttp.RequestCtx) {
	snap, key, ok := p.checkOptionalKey(ctx)
	if !ok {
		return
	}
	v := catalog.View{
		Scope: catalog.PublicScope, Allow: func(string) bool { return true },
		Messages: wantsMessagesDialect(ctx), Codex: ctx.QueryArgs().Has("client_version"), Slots: ctx.QueryArgs().Has("slots"),
	}
	if key != nil {
		v.Scope, v.Template = catalogScope(key)
		v.Allow = func(id string) bool {
			m, found := snap.ModelByID(id)
			return found && snap.MayUse(key, m)
		}
	}
	if v.Messages {
		if err := parsePagination(ctx.QueryArgs(), &v); err != nil {
			p.respondCatalogError(ctx, err)
			return
		}
	}
	page, err := snap.Catalog.ListPage(&v, time.Now())
	p.respondCatalogPage(ctx, key, page, err)
}

// catalogScope returns a key's catalog scope, and the id of the key that defines its rights.
func catalogScope(key *auth.Key) (scope, template string) {
	if key == nil {
		return catalog.PublicScope, ""
	}
	if key.Template != nil {
		template = key.Template.ID
	}
	return key.ID, template
}

func wantsMessagesDialect(ctx *fasthttp.RequestCtx) bool {
	return len(ctx.Request.Header.Peek("Anthropic-Version")) > 0
}

// respondCatalogError responds to a catalog request with an error, in the dialect of the requested
// list.
func (p *publicAPI) respondCatalogError(ctx *fasthttp.RequestCtx, err *apierr.Error) {
	d := endpoint.ModelsDialect
	if wantsMessagesDialect(ctx) {
		d = endpoint.MessagesModelsDialect
	}
	p.respondError(ctx, d, err)
}

func parsePagination(q *fasthttp.Args, v *catalog.View) *apierr.Error {
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

// serveModelByID handles GET /v1/models/{id}. Ids may contain slashes, escaped or not.
func (p *publicAPI) serveModelByID(ctx *fasthttp.RequestCtx) {
	snap, key, ok := p.checkOptionalKey(ctx)
	if !ok {
		return
	}
	id := string(ctx.URI().PathOriginal()[len("/v1/models/"):])
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	m, found := snap.LookupModel([]byte(id))
	if !found || key != nil && !snap.MayUse(key, m) {
		p.respondCatalogError(ctx, apierr.ModelNotFound(id, snap.NearestModel(id, key)))
		return
	}
	v := catalog.View{Messages: wantsMessagesDialect(ctx)}
	v.Scope, v.Template = catalogScope(key)
	page, err := snap.Catalog.ModelPage(id, m.Route.Index, &v, time.Now())
	p.respondCatalogPage(ctx, key, page, err)
}

// checkOptionalKey checks a request's credential, if the request has one or the configuration requires
// one. If ok is false, checkOptionalKey has already responded.
func (p *publicAPI) checkOptionalKey(ctx *fasthttp.RequestCtx) (snap *snapshot.Snapshot, key *auth.Key, ok bool) {
	snap = p.services.Current()
	key, err := snap.Authenticate(&ctx.Request.Header, ctx.URI().QueryString(), listen.AuthConnection(ctx.Conn()), time.Now())
	if err == nil && key == nil && !snap.Config.Catalog.Public && !snap.AllowsAnonymous() {
		err = apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	}
	if err != nil {
		p.respondCatalogError(ctx, asAPIError(err))
		return nil, nil, false
	}
	return snap, key, true
}

func asAPIError(err error) *apierr.Error {
	var a *apierr.Error
	if !errors.As(err, &a) {
		a = apierr.InternalError(err)
	}
	return a
}

func (p *publicAPI) respondCatalogPage(ctx *fasthttp.RequestCtx, key *auth.Key, page *catalog.Page, err error) {
	if err != nil {
		p.respondCatalogError(ctx, asAPIError(err))
		return
	}
	h := &ctx.Response.Header
	endpoint.SetCommonHeaders(h, endpoint.AppendNewRequestID(nil))
	// Even the public list needs Vary. A cache must not serve it for a key that has a different
	// list, or to a client that uses another dialect.
	h.Set("Vary", "Authorization, x-api-key, anthropic-version")
	if key != nil {
		h.Set("Cache-Control", "private, max-age=15")
	} else {
		h.Set("Cache-Control", "public, max-age=15")
	}
	respondWithETag(ctx, "application/json", page.ETag, page.Body)
}

// respondWithETag responds with the body, or with 304 if the client already has this version. The
// body is shared, not copied.
func respondWithETag(ctx *fasthttp.RequestCtx, contentType, etag string, body []byte) {
	ctx.Response.Header.Set("ETag", etag)
	if etagMatches(ctx.Request.Header.Peek("If-None-Match"), etag) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	ctx.Response.Header.SetContentType(contentType)
	ctx.Response.SetBodyRaw(body)
}

// etagMatches reports whether If-None-Match contains the tag. The header is * or a list of strong
// and weak tags, and the comparison is weak (RFC 9110, 13.1.2). The edge's tags contain no comma.
func etagMatches(ifNoneMatch []byte, etag string) bool {
	etag = strings.TrimPrefix(etag, "W/")
	for tag := range bytes.SplitSeq(ifNoneMatch, []byte{','}) {
		tag = bytes.TrimPrefix(bytes.TrimSpace(tag), []byte("W/"))
		if string(tag) == etag || string(tag) == "*" {
			return true
		}
	}
	return false
}

// serveHealth handles GET /health. The response only says that the edge is alive.
func (p *publicAPI) serveHealth(ctx *fasthttp.RequestCtx) {
	endpoint.SetCommonHeaders(&ctx.Response.Header, endpoint.AppendNewRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"status":"ok"}`)
}

// serveRoot lists the main paths, for a person who opens the address in a browser.
func (p *publicAPI) serveRoot(ctx *fasthttp.RequestCtx) {
	endpoint.SetCommonHeaders(&ctx.Response.Header, endpoint.AppendNewRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyString(`{"service":"penstock","base_url":"/v1","models":"/v1/models","health":"/health",` +
		`"openapi":"/openapi.json"}`)
}

// serveHeadRoot handles HEAD /. Clients use it to check that the host responds.
func (p *publicAPI) serveHeadRoot(ctx *fasthttp.RequestCtx) {
	endpoint.SetCommonHeaders(&ctx.Response.Header, endpoint.AppendNewRequestID(nil))
	ctx.SetStatusCode(fasthttp.StatusNoContent)
}
