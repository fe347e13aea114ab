package call

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/request/body"
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
		if list[i].Before == "" || !list[i].Concerns(c.record.Model, c.record.Key, c.record.Template) {
			continue
		}
		c.setPhase(&phaseHook)
		if f := c.askHook(&list[i]); f != nil {
			return f
		}
		c.times.stepStart = time.Now()
	}
	if c.ep.Local == nil || c.ep.Local.Segments == nil { // Segments reads the client's bytes
		c.body.DropClientIfTranslated()
	}
	return nil
}

func (c *Call) askHook(of *config.Hook) *failure.Failure {
	left, ok := c.abort.Done()
	if !ok {
		return failure.FromAbort(c.abort.Cause())
	}
	about := hook.Call{
		Left: left, Memory: c.services.Bodies, MaxBody: int64(c.config.snapshot.Config.Limits.RequestBody),
	}
	if total := c.config.model.Clocks.Total.D(); total > 0 {
		about.Deadline = c.record.Start.Add(total)
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
		c.record.Hooks = new(observe.Hooks)
	}
	c.record.Hooks.Took += answered.Sub(begun)
	var blamed *hook.Failure
	switch {
	case err == nil:
		return nil
	case c.abort.Cause() != nil:
		return failure.FromAbort(c.abort.Cause())
	case errors.Is(err, hook.ErrNoMemory):
		return failure.FromRequestError(body.MemoryFullError())
	case !errors.As(err, &blamed):
		return classifyDecisionError(err)
	}
	c.record.Hooks.Failed, c.record.Hooks.Detail = of.Name, string(blamed.Detail)
	c.logHookFailure(of, blamed)
	if of.OnError == config.HookOpen {
		return nil
	}
	return failure.HookUnavailable(blamed.Cause)
}

func (c *Call) logHookFailure(of *config.Hook, blamed *hook.Failure) {
	fields := []zap.Field{
		zap.ByteString("request_id", c.client.requestID), zap.String("hook", of.Name),
		zap.String("cause", string(blamed.Cause)), zap.String("on_error", of.OnError),
	}
	if blamed.Detail != "" {
		fields = append(fields, zap.String("detail", string(blamed.Detail)))
	}
	c.services.Log.Warn("hook failed", fields...)
}

// classifyDecisionError returns the failure for an error from applyDecision.
func classifyDecisionError(err error) *failure.Failure {
	var f *failure.Failure
	if errors.As(err, &f) {
		return f
	}
	return failure.FromRequestError(err)
}

func (c *Call) buildHookQuestion(of *config.Hook) *hook.Question {
	q := &hook.Question{
		RequestID: string(c.client.requestID), Endpoint: c.ep.Path, Model: c.record.Model, Key: c.record.Key,
		PromptTokens: c.tokens.estimatedPrompt, BodyBytes: int64(len(c.body.ClientBytes())), Stream: c.record.Stream,
	}
	if of.Send == config.HookBody && !c.ep.Form {
		q.Body = c.body.ClientBytes()
	}
	return q
}

func (c *Call) applyDecision(d *hook.Decision) error {
	switch d.Action {
	case hook.ActionRefuse:
		return failure.RefusedByHook(d.Status, d.Message)
	case hook.ActionRewrite:
		if c.ep.Form {
			return hook.InvalidAnswer(hook.DetailUploadReplaced)
		}
		if most := c.ep.BodyLimit(c.config.snapshot.Config, c.limits.key.BodyLimits()); int64(len(d.Body)) > most {
			return c.ep.TooLargeError(most)
		}
		// The client expects the format that it requested.
		if requestsStream(d.Body) != requestsStream(c.body.ClientBytes()) {
			return hook.InvalidAnswer(hook.DetailStreamChanged)
		}
		return c.replaceBody(int64(len(d.Body)), func(dst []byte) []byte { return append(dst, d.Body...) })
	case hook.ActionRoute:
		if c.ep.Form {
			c.resetAdmission()
			return c.readmit([]byte(d.Model))
		}
		return c.rewriteModel(d.Model)
	default:
		return nil
	}
}

// rewriteModel replaces the model in the body, and admits the call again.
func (c *Call) rewriteModel(model string) error {
	src := c.body.ClientBytes()
	var doc jsonx.Doc
	var edits jsonx.Edits
	if err := doc.Parse(src, jsonx.Options{Record: 1}); err != nil {
		return apierr.FromJSONError(err, "")
	}
	named := doc.Root().Get("model")
	if !named.Exists() { // unexpected, because the endpoint rejects a body without a model
		return hook.InvalidAnswer(hook.DetailModel)
	}
	edits.Set(named, jsonx.AppendStringS(nil, model))
	return c.replaceBody(int64(edits.Size(len(src))), func(dst []byte) []byte { return edits.Append(dst, src) })
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
	if err := c.decodeRequest(body.Source{}); err != nil {
		return err
	}
	c.record.Stream = c.request.ClientWantsStream()
	return c.readmit(c.request.Model())
}

// resetAdmission undoes what the gate has stored in the call.
func (c *Call) resetAdmission() {
	c.limits.reservation.Cancel()
	t := &c.attemptState
	t.excluded, t.classRank = t.excluded[:0], 0
	t.conversation = conversation{hashes: t.conversation.hashes[:0]}
	c.record.Class, c.record.Dropped = "", nil
}

// readmit resolves and admits a changed call.
func (c *Call) readmit(name []byte) error {
	if err := c.resolveModel(name); err != nil {
		return err
	}
	if c.client.conn != nil {
		c.client.conn.UnwatchDisconnect(c)
	}
	c.callStatus.publish(c.client.requestID, &c.record)
	if c.client.conn != nil && c.client.conn.WatchDisconnect(c) {
		return failure.FromAbort(failure.ErrClientGone)
	}
	c.times.stepStart = time.Now()
	return c.reserveKeyLimits()
}
