package call

import (
	"cmp"
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
	"penstock/upstreams"
)

// The gate makes the checks that need no engine. It checks the key, the key's requests per minute,
// the body, and the model.

func (c *Call) receiveRequest() error {
	if err := c.authenticate(); err != nil {
		return c.client.refuseUnread(err)
	}
	if err := c.readAndDecode(); err != nil {
		return err
	}
	return c.resolveModel(c.request.Model())
}

// authenticate checks the key and charges its requests per minute.
func (c *Call) authenticate() error {
	snap, ctx := c.config.snapshot, c.client.ctx
	query, from := ctx.URI().QueryString(), listen.AuthConnection(ctx.Conn())
	key, err := Authenticate(snap, &ctx.Request.Header, query, from, c.ep, c.record.Start)
	if key != nil {
		c.limits.key, c.record.Key = key, key.ID
		if c.client.conn != nil {
			c.client.conn.MarkAuthenticated()
		}
		if key.Template != nil {
			c.record.Template = key.Template.ID
		}
	}
	if err != nil {
		return err
	}
	if d := c.limits.chargeRequest(&snap.Credentials, c.record.Start); !d.OK {
		return recordLimitRejection(&c.record, d)
	}
	return nil
}

// Authenticate returns the key of a request before its body is read. If no key is required, it
// returns nil and no error.
func Authenticate(
	s *snapshot.Snapshot, h *fasthttp.RequestHeader, query []byte, from auth.ClientConnection,
	ep *endpoint.Endpoint, now time.Time,
) (*auth.Key, error) {
	key, err := s.Authenticate(h, query, from, now)
	switch {
	case err != nil:
		return nil, err
	case key == nil && !s.AllowsAnonymous():
		return nil, apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	case key != nil && !key.AllowsOperation(ep.Operation):
		return key, apierr.OperationNotAllowed()
	}
	return key, nil
}

// readAndDecode reads and decodes the body.
func (c *Call) readAndDecode() error {
	snap, h := c.config.snapshot, &c.client.ctx.Request.Header
	announced, most := body.AnnouncedLength(h), c.ep.BodyLimit(snap.Config, c.limits.key.BodyLimits())
	if e := body.CheckBodyHeaders(h, c.ep.Form); e != nil {
		return c.client.refuseBody(e)
	}
	if announced > most {
		return c.client.refuseBody(c.ep.TooLargeError(most))
	}
	from := body.RequestSource{
		Ctx: c.client.ctx, Start: c.record.Start, Limit: most,
		Silence: snap.Config.Timeouts.ClientBody.D(), Rate: int64(snap.Config.Limits.UploadRate),
	}
	// A key cannot block other keys if it is the only one.
	if c.limits.key != nil && len(snap.KeyLimits) > 1 {
		from.Reading, c.memory.Key = c.limits.keyLimits.IncompleteBodyCounter(), c.limits.keyLimits.ReplyByteCounter()
	}
	if !c.ep.Form {
		if e := c.body.Read(&from); e != nil {
			return c.client.refuseBody(e)
		}
		if announced < 0 {
			c.client.closeIfRequestTrailers()
		}
	}
	if names := snap.Secrets.EndUsers; names != nil { // the translation may drop the user's name
		c.record.User = names.HashRequest(h, c.body.Bytes())
	}
	if err := c.decodeRequest(from); err != nil {
		if c.ep.Form { // the body has not been read completely
			return c.client.refuseBody(err)
		}
		return err
	}
	c.record.Stream = c.request.ClientWantsStream()
	if snap.Config.Log.Sessions {
		s := c.search.conversation.clientSession(c.request, &c.client)
		c.record.Session = observe.NewSessionHash(cmp.Or(s.ID, s.CacheKey))
	}
	return nil
}

func (c *Call) decodeRequest(from body.RequestSource) error {
	c.request = c.ep.New()
	return c.request.Decode(endpoint.DecodeInput{
		Body: &c.body, From: from, Memory: c.services.Bodies, Snapshot: c.config.snapshot, Header: &c.client.ctx.Request.Header,
		Seal: c.config.snapshot.Secrets.Seals.NewBox(c.record.Key, c.services.Counters.Seals),
	})
}

// resolveModel finds the model with the given name and applies its rules to the request.
func (c *Call) resolveModel(name []byte) error {
	found, err := resolveRequest(c.config.snapshot, c.ep, c.limits.key, c.request, name, c.record.Start)
	c.record.Nearest = found.nearestModel
	if found.model != nil {
		c.config.model, c.record.Model = found.model, found.model.Config.ID
		c.record.Pool, c.record.Dropped = found.checkResult.PoolName, found.checkResult.Dropped
	}
	if err != nil {
		return err
	}
	t := &c.search
	t.pool, t.neededFeatures, t.classRank = found.checkResult.Pool, found.neededFeatures, found.classRank
	t.excluded = append(t.excluded, found.checkResult.Unfit...)
	c.tokens.promptBytes = found.checkResult.PromptBytes
	if t.classRank > 0 {
		c.record.Class = config.EffectiveClasses(c.config.snapshot.Config)[t.classRank].Name
	}
	return nil
}

// resolvedRequest contains the results of resolveRequest. After an error, only the fields set
// before the error are valid.
type resolvedRequest struct {
	model          *snapshot.Model
	nearestModel   string // model with a name similar to an unknown name; empty if there is none
	checkResult    endpoint.CheckResult
	neededFeatures upstreams.Features // features that the request needs from an engine
	classRank      int                // index of the call's class
}

// resolveRequest finds the model with the given name, checks whether the key may use the model, and
// applies the model's rules.
func resolveRequest(
	s *snapshot.Snapshot, ep *endpoint.Endpoint, key *auth.Key, r endpoint.Request, name []byte, now time.Time,
) (out resolvedRequest, err error) {
	m, ok := s.LookupModel(name)
	if !ok {
		out.nearestModel = s.NearestModel(string(name), key)
		return out, apierr.ModelNotFound(string(name), out.nearestModel)
	}
	if key != nil && !key.AllowsModel(m.Config.ID) {
		return out, apierr.ModelNotAllowed()
	}
	out.model = m
	if !s.MayUse(key, m) {
		return out, apierr.TiersNotAllowed()
	}
	if !ep.ServesModel(m) {
		return out, apierr.Invalid("model", apierr.CodeUnsupportedParameter,
			"The model is not served on this endpoint. GET /v1/models lists each model's endpoints.")
	}
	if out.checkResult, err = r.CheckModelRules(m, now); err != nil {
		return out, err
	}
	out.neededFeatures, out.classRank = endpoint.RequiredFeatures(ep, r.Chat()), callClassRank(s, key, r.Chat())
	return out, nil
}

// callClassRank returns the index of the class of a call, which is the class of its key. A request
// with OpenAI's service tier "flex" gets the last class.
func callClassRank(s *snapshot.Snapshot, key *auth.Key, r *chat.Request) int {
	if s.Flex && r != nil && chat.RequestsFlexTier(r) {
		return len(s.Floors) - 1
	}
	if key != nil && key.Class != "" {
		return config.ClassRank(s.Config, key.Class)
	}
	return 0
}

// reserveKeyLimits acquires a slot of the key's concurrency limit and reserves an estimated number
// of tokens. chargeTokens later releases the slot and corrects the estimate.
func (c *Call) reserveKeyLimits() error {
	t, m := &c.tokens, c.config.model
	var answers int
	t.estimatedPrompt, t.expectedOutput, answers = c.request.EstimateTokens(m.Route.BytesPerToken())
	if c.ep.Local != nil { // counting tokens generates no output
		t.expectedOutput = 0
	}
	c.search.excluded = m.Route.AppendTooShortUpstreams(c.search.excluded, t.estimatedPrompt)
	expected := limit.Cost{Tokens: int64(t.estimatedPrompt + t.expectedOutput), Spend: m.Price.CallCost(t.estimatedPrompt, 0, t.expectedOutput)}
	// A budget may be exceeded by one answer, but not by many prompts or choices.
	least := expected
	switch {
	case c.ep.Local != nil: // counting tokens is free
		least = limit.Cost{}
	case answers == 1:
		least = limit.Cost{Tokens: int64(t.estimatedPrompt), Spend: m.Price.CallCost(t.estimatedPrompt, 0, 0)}
	}
	if d := c.limits.reserve(expected, least, c.times.stepStart); !d.OK {
		return recordLimitRejection(&c.record, d)
	}
	return nil
}
