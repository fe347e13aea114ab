package call

import (
	"cmp"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// The gate makes the checks that need no engine: the key, its requests per minute, the body, and
// the model.

type gate struct{ call *Call }

func (g gate) pass() error {
	c := g.call
	snap, ctx := c.config.snapshot, c.client.ctx
	query, from := ctx.URI().QueryString(), listen.SenderOf(ctx.Conn())
	key, err := Authenticate(snap, &ctx.Request.Header, query, from, c.ep, c.record.Start)
	if key != nil {
		c.rates.key, c.record.Key = key, key.ID
		if c.client.conn != nil {
			c.client.conn.ShowedKey()
		}
		if key.Template != nil {
			c.record.Template = key.Template.ID
		}
	}
	if err != nil {
		return g.refuseUnread(err)
	}
	if d := c.rates.takeRequest(&snap.Credentials, c.record.Start); !d.OK {
		return g.refuseUnread(g.limited(d))
	}
	if err := g.decode(); err != nil {
		return err
	}
	return g.resolve(c.request.Model())
}

// Authenticate returns the key of a request before its body is read. If no key is required, it
// returns nil and no error.
func Authenticate(
	s *snapshot.Snapshot, h *fasthttp.RequestHeader, query []byte, from auth.Sender,
	ep *endpoint.Endpoint, now time.Time,
) (*auth.Key, error) {
	key, err := s.Authenticate(h, query, from, now)
	switch {
	case err != nil:
		return nil, err
	case key == nil && !s.Open():
		return nil, apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	case key != nil && !key.AllowsOp(ep.Operation):
		return key, apierr.OperationNotAllowed()
	}
	return key, nil
}

// refuseUnread rejects a request before its body is read. If the request has a body, the connection
// closes after the response.
func (g gate) refuseUnread(err error) error {
	c := g.call
	if e := (*apierr.Error)(nil); errors.As(err, &e) && c.client.hasBody() {
		c.client.closeAfterResponse()
	}
	return err
}

func (g gate) limited(d limit.Decision) *apierr.Error {
	c := g.call
	c.record.Limit = limitLabels[d.LimitName]
	if d.Group != "" {
		c.record.Limit = groupLabels[d.LimitName]
	}
	return rateLimited(d)
}

func (g gate) decode() error {
	c := g.call
	f, h := c.config.snapshot.Config, &c.client.ctx.Request.Header
	announced, most := body.Announced(h), c.ep.BodyLimit(f, c.rates.key.Bodies())
	if e := body.CheckHead(h, c.ep.Form); e != nil {
		return g.refuseBody(e)
	}
	if announced > most {
		return g.refuseBody(c.ep.TooLarge(most))
	}
	from := body.Source{
		Ctx: c.client.ctx, Start: c.record.Start, Limit: most,
		Silence: f.Timeouts.ClientBody.D(), Rate: int64(f.Limits.UploadRate),
	}
	// A single key has no other keys to block.
	if c.rates.key != nil && len(c.config.snapshot.KeyLimits) > 1 {
		from.Reading, c.memory.Key = c.rates.limits.Reading(), c.rates.limits.Replies()
	}
	if !c.ep.Form {
		if e := c.body.Read(&from); e != nil {
			return g.refuseBody(e)
		}
		if announced < 0 {
			c.client.endChunked()
		}
	}
	if names := c.config.snapshot.Secrets.EndUsers; names != nil { // must run before the translation drops members
		c.record.User = names.Of(h, c.body.Bytes())
	}
	if err := g.parse(from); err != nil {
		if c.ep.Form { // the body has not been read completely
			return g.refuseBody(err)
		}
		return err
	}
	c.record.Stream = c.request.Streams()
	if c.config.snapshot.Config.Log.Sessions {
		s := c.session()
		c.record.Session = observe.SessionOf(cmp.Or(s.ID, s.CacheKey))
	}
	return nil
}

func (g gate) parse(from body.Source) error {
	c := g.call
	c.request = c.ep.New()
	return c.request.Decode(endpoint.Input{
		Body: &c.body, From: from, Memory: c.shared.Bodies, Snapshot: c.config.snapshot, Header: &c.client.ctx.Request.Header,
		Seal: c.config.snapshot.Secrets.Seals.Of(c.record.Key, c.shared.Counters.Seals),
	})
}

// refuseBody rejects a request whose body was not read completely. The connection closes after the
// response.
func (g gate) refuseBody(err error) error {
	g.call.client.closeAfterResponse()
	return err
}

func (g gate) resolve(name []byte) error {
	c := g.call
	m, ok := c.config.snapshot.Lookup(name)
	if !ok {
		c.record.Nearest = c.config.snapshot.NearestModel(string(name), c.rates.key)
		return apierr.ModelNotFound(string(name), c.record.Nearest)
	}
	if key := c.rates.key; key != nil && !key.Allows(m.Config.ID) {
		return apierr.ModelNotAllowed()
	}
	c.config.model, c.record.Model = m, m.Config.ID
	if !c.config.snapshot.MayUse(c.rates.key, m) {
		return apierr.TiersNotAllowed()
	}
	if !c.ep.ServedBy(m) {
		return apierr.Invalid("model", apierr.CodeUnsupportedParameter,
			"The model is not served on this endpoint. GET /v1/models lists each model's endpoints.")
	}
	checked, err := c.request.Check(m, c.record.Start)
	c.record.Pool, c.record.Dropped = checked.PoolName, checked.Dropped
	if err != nil {
		return err
	}
	c.tries.pool, c.tokens.promptBytes = checked.Pool, checked.PromptBytes
	c.tries.excluded = append(c.tries.excluded, checked.Unfit...)
	c.tries.needs = endpoint.FeaturesOf(c.ep, c.request)
	g.classify()
	return nil
}

// classify sets the class of the call, which is the class of its key. A request with OpenAI's
// service tier flex gets the last class.
func (g gate) classify() {
	c, snap := g.call, g.call.config.snapshot
	if key := c.rates.key; key != nil && key.Class != "" {
		c.tries.rank = config.RankOf(snap.Config, key.Class)
	}
	if r := c.request.Chat(); snap.Flex && r != nil && chat.AsksFlex(r) {
		c.tries.rank = len(snap.Floors) - 1
	}
	if rank := c.tries.rank; rank > 0 {
		c.record.Class = config.ClassesOf(snap.Config)[rank].Name
	}
}

// admit acquires a slot of the key's concurrency limit and reserves an estimated number of tokens.
// charge later releases the slot and corrects the estimate.
func (g gate) admit() error {
	c := g.call
	t := &c.tokens
	t.prompt, t.output = c.request.Estimate(c.config.model.Route.BytesPerToken())
	if c.ep.Local != nil { // counting tokens does not generate any
		t.output = 0
	}
	c.tries.excluded = c.config.model.Route.AppendTooShort(c.tries.excluded, t.prompt)
	expected := limit.Cost{Tokens: int64(t.prompt + t.output), Spend: c.config.model.Price.Of(t.prompt, 0, t.output)}
	if d := c.rates.reserve(expected, c.times.asked); !d.OK {
		return g.limited(d)
	}
	return nil
}
