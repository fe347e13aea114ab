package call

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/hook"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// After a call is admitted, and before it waits for an engine, the operator's hooks are asked about
// it. The call already occupies a slot of its key, so the key limits also protect the hooks. If a
// hook rewrites or routes a call, the edge checks and admits the call again, as if the client had
// sent the changed request.

// askHooks asks the hooks in order. It returns the failure that ends the call, or nil.
func (c *Call) askHooks() *failure.Failure {
	list := c.config.snapshot.Config.Hooks
	for i := range list {
		if list[i].Before == "" || !list[i].AppliesTo(c.record.Model, c.record.Key, c.record.Template) {
			continue
		}
		c.setPhase(&phaseHook)
		if f := c.askHook(&list[i]); f != nil {
			return f
		}
		c.times.stepStart = time.Now()
	}
	if c.ep.Local == nil || c.ep.Local.Segments == nil { // Segments reads the client's bytes
		c.body.DropClientBytesIfTranslated()
	}
	return nil
}

func (c *Call) askHook(of *config.Hook) *failure.Failure {
	left, ok := c.abort.Done()
	if !ok {
		return failure.FromAbort(c.abort.Cause())
	}
	about := hook.Call{
		Canceled: left, Memory: c.services.Bodies, MaxBody: int64(c.config.snapshot.Config.Limits.RequestBody),
		Deadline: c.totalDeadline(),
	}
	begun, answered := time.Now(), time.Time{}
	err := c.services.Hooks.Ask(of, c.buildHookQuestion(of), &about, func(d *hook.Decision) error {
		answered = time.Now()
		return c.applyDecision(d)
	})
	if answered.IsZero() {
		answered = time.Now()
	}
	c.times.earlierWait += answered.Sub(begun)
	if c.record.Hooks == nil {
		c.record.Hooks = new(observe.HooksResult)
	}
	c.record.Hooks.Took += answered.Sub(begun)
	f, blamed := classifyHookError(err, c.abort.Cause())
	if blamed == nil {
		return f
	}
	c.record.Hooks.Failed, c.record.Hooks.Detail = of.Name, string(blamed.Detail)
	logHookFailure(c.services.Log, c.requestID(), of, blamed)
	if of.OnError == config.HookFailOpen {
		return nil
	}
	return f
}

// classifyHookError returns the failure that ends a call after the error err. Either asking a hook
// or applying its decision has failed with err. If the hook is to blame, blamed is its failure.
// canceled is why the call was canceled, or nil.
func classifyHookError(err, canceled error) (f *failure.Failure, blamed *hook.Failure) {
	switch {
	case err == nil:
		return nil, nil
	case canceled != nil:
		return failure.FromAbort(canceled), nil
	case errors.Is(err, hook.ErrNoMemory):
		return failure.FromRequestError(body.MemoryFullError()), nil
	case errors.As(err, &blamed):
		return failure.HookUnavailable(blamed.Cause), blamed
	case errors.As(err, &f):
		return f, nil
	}
	return failure.FromRequestError(err), nil
}

func logHookFailure(log *zap.Logger, requestID []byte, of *config.Hook, blamed *hook.Failure) {
	fields := []zap.Field{
		zap.ByteString("request_id", requestID), zap.String("hook", of.Name),
		zap.String("cause", string(blamed.Cause)), zap.String("on_error", of.OnError),
	}
	if blamed.Detail != "" {
		fields = append(fields, zap.String("detail", string(blamed.Detail)))
	}
	log.Warn("hook failed", fields...)
}

func (c *Call) buildHookQuestion(of *config.Hook) *hook.Question {
	q := &hook.Question{
		RequestID: string(c.requestID()), Endpoint: c.ep.Path, Model: c.record.Model, Key: c.record.Key,
		PromptTokens: c.tokens.estimatedPrompt, BodyBytes: int64(len(c.body.ClientBytes())), Stream: c.record.Stream,
	}
	if of.Send == config.HookSendBody && !c.ep.Form {
		q.Body = c.body.ClientBytes()
	}
	return q
}

func (c *Call) applyDecision(d *hook.Decision) error {
	client := c.body.ClientBytes()
	switch d.Action {
	case hook.ActionRefuse:
		return failure.RefusedByHook(d.Status, d.Message)
	case hook.ActionRewrite:
		most := c.ep.BodyLimit(c.config.snapshot.Config, c.limits.key.BodyLimits())
		if err := checkRewrite(c.ep, d.Body, client, most); err != nil {
			return err
		}
		return c.replaceBody(int64(len(d.Body)), func(dst []byte) []byte { return append(dst, d.Body...) })
	case hook.ActionRoute:
		if c.ep.Form {
			c.resetAdmission()
			return c.readmitChangedCall([]byte(d.Model))
		}
		edits, err := modelEdit(client, d.Model)
		if err != nil {
			return err
		}
		return c.replaceBody(int64(edits.Size(len(client))), func(dst []byte) []byte { return edits.Append(dst, client) })
	default:
		return nil
	}
}

// checkRewrite checks the body with which a hook replaces the client's. most is the maximum size.
func checkRewrite(ep *endpoint.Endpoint, rewritten, client []byte, most int64) error {
	switch {
	case ep.Form:
		return hook.InvalidAnswer(hook.MistakeUploadReplaced)
	case int64(len(rewritten)) > most:
		return ep.TooLargeError(most)
	case requestsStream(rewritten) != requestsStream(client): // the client expects the format that it requested
		return hook.InvalidAnswer(hook.MistakeStreamChanged)
	}
	return nil
}

// modelEdit returns the edits that replace the model in a request.
func modelEdit(src []byte, model string) (edits jsonx.Edits, err error) {
	var doc jsonx.Doc
	if err := doc.Parse(src, jsonx.Options{Record: 1}); err != nil {
		return edits, apierr.FromJSONError(err, "")
	}
	named := doc.Root().Get("model")
	if !named.Exists() { // unexpected, because the endpoint rejects a body without a model
		return edits, hook.InvalidAnswer(hook.MistakeModel)
	}
	edits.Set(named, jsonx.AppendStringS(nil, model))
	return edits, nil
}

func requestsStream(src []byte) bool {
	var doc jsonx.Doc
	if doc.Parse(src, jsonx.Options{Record: 1}) != nil {
		return false
	}
	stream, _ := doc.Root().Get("stream").Bool()
	return stream
}

// replaceBody replaces the body with the n bytes that write appends, and admits the call again.
func (c *Call) replaceBody(n int64, write func(dst []byte) []byte) error {
	if !c.body.Replace(n, write) {
		return body.MemoryFullError()
	}
	c.request.Release()
	c.request.Recycle()
	c.resetAdmission()
	if err := c.decodeRequest(body.RequestSource{}); err != nil {
		return err
	}
	c.record.Stream = c.request.ClientWantsStream()
	return c.readmitChangedCall(c.request.Model())
}

// resetAdmission undoes what the gate has stored in the call.
func (c *Call) resetAdmission() {
	c.limits.reservation.Cancel()
	c.search.resetForNewModel()
	c.record.Class, c.record.Dropped = "", nil
}

// readmitChangedCall resolves and admits a changed call.
func (c *Call) readmitChangedCall(name []byte) error {
	if err := c.resolveModel(name); err != nil {
		return err
	}
	if c.client.conn != nil {
		c.client.conn.UnwatchDisconnect(c)
	}
	if cause := c.beginWatch(); cause != nil {
		return failure.FromAbort(cause)
	}
	c.times.stepStart = time.Now()
	return c.reserveKeyLimits()
}
