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

// hooks asks the operator's hooks about an admitted call before the call waits for an engine. The
// call already occupies a slot of its key, so the key limits also protect the hooks. If a hook
// rewrites or routes a call, the edge checks and admits the call again, as if the client had sent
// the changed request.
type hooks struct{ call *Call }

// ask asks the hooks in order. It returns the failure that ends the call, or nil.
func (h hooks) ask() *failure.Failure {
	c := h.call
	list := c.config.snapshot.Config.Hooks
	for i := range list {
		if list[i].Before == "" || !list[i].Concerns(c.record.Model, c.record.Key, c.record.Template) {
			continue
		}
		c.setPhase(&phaseHook)
		if f := h.obey(&list[i]); f != nil {
			return f
		}
		c.times.ask(time.Now())
	}
	if c.ep.Local == nil || c.ep.Local.Segments == nil { // counting segments reads the client's bytes
		c.body.DropOriginal()
	}
	return nil
}

func (h hooks) obey(of *config.Hook) *failure.Failure {
	c := h.call
	left, ok := c.abort.Wait()
	if !ok {
		return failure.FromAbort(c.abort.Cause())
	}
	about := hook.Call{
		Left: left, Memory: c.shared.Bodies, MaxBody: int64(c.config.snapshot.Config.Limits.RequestBody),
	}
	if total := c.config.model.Clocks.Total.D(); total > 0 {
		about.Deadline = c.record.Start.Add(total)
	}
	begun, answered := time.Now(), time.Time{}
	err := c.shared.Hooks.Ask(of, h.question(of), &about, func(d *hook.Decision) error {
		answered = time.Now()
		return h.apply(d)
	})
	if answered.IsZero() {
		answered = time.Now()
	}
	c.times.awaited += answered.Sub(begun)
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
	case errors.Is(err, hook.ErrMemory):
		return failure.FromClient(body.MemoryFull())
	case !errors.As(err, &blamed):
		return h.ended(err)
	}
	c.record.Hooks.Failed, c.record.Hooks.Detail = of.Name, string(blamed.Detail)
	h.warn(of, blamed)
	if of.OnError == config.HookOpen {
		return nil
	}
	return failure.HookUnavailable(blamed.Cause)
}

func (h hooks) warn(of *config.Hook, blamed *hook.Failure) {
	c := h.call
	fields := []zap.Field{
		zap.ByteString("request_id", c.client.requestID), zap.String("hook", of.Name),
		zap.String("cause", string(blamed.Cause)), zap.String("on_error", of.OnError),
	}
	if blamed.Detail != "" {
		fields = append(fields, zap.String("detail", string(blamed.Detail)))
	}
	c.shared.Log.Warn("hook failed", fields...)
}

func (hooks) ended(err error) *failure.Failure {
	var f *failure.Failure
	if errors.As(err, &f) {
		return f
	}
	return failure.FromClient(err)
}

func (h hooks) question(of *config.Hook) *hook.Question {
	c := h.call
	q := &hook.Question{
		RequestID: string(c.client.requestID), Endpoint: c.ep.Path, Model: c.record.Model, Key: c.record.Key,
		PromptTokens: c.tokens.prompt, BodyBytes: int64(len(c.body.Client())), Stream: c.record.Stream,
	}
	if of.Send == config.HookBody && !c.ep.Form {
		q.Body = c.body.Client()
	}
	return q
}

func (h hooks) apply(d *hook.Decision) error {
	switch c := h.call; d.Action {
	case hook.Refuse:
		return failure.RefusedByHook(d.Status, d.Message)
	case hook.Rewrite:
		if c.ep.Form {
			return hook.Misunderstood(hook.DetailUploadReplaced)
		}
		if most := c.ep.BodyLimit(c.config.snapshot.Config, c.rates.key.Bodies()); int64(len(d.Body)) > most {
			return c.ep.TooLarge(most)
		}
		// The client expects the format that it requested.
		if streams(d.Body) != streams(c.body.Client()) {
			return hook.Misunderstood(hook.DetailStreamChanged)
		}
		return h.rewrite(int64(len(d.Body)), func(dst []byte) []byte { return append(dst, d.Body...) })
	case hook.Route:
		if c.ep.Form {
			h.restart()
			return h.admit([]byte(d.Model))
		}
		return h.route(d.Model)
	default:
		return nil
	}
}

func (h hooks) route(model string) error {
	src := h.call.body.Client()
	var doc jsonx.Doc
	var edits jsonx.Edits
	if err := doc.Parse(src, jsonx.Options{Record: 1}); err != nil {
		return apierr.FromJSON(err, "")
	}
	named := doc.Root().Get("model")
	if !named.Exists() { // unexpected, because the endpoint rejects a body without a model
		return hook.Misunderstood(hook.DetailModel)
	}
	edits.Set(named, jsonx.AppendStringS(nil, model))
	return h.rewrite(int64(edits.Size(len(src))), func(dst []byte) []byte { return edits.Append(dst, src) })
}

func streams(src []byte) bool {
	var doc jsonx.Doc
	if doc.Parse(src, jsonx.Options{Record: 1}) != nil {
		return false
	}
	stream, _ := doc.Root().Get("stream").Bool()
	return stream
}

// rewrite replaces the body with the n bytes that write appends, and admits the call again.
func (h hooks) rewrite(n int64, write func(dst []byte) []byte) error {
	c := h.call
	if !c.body.Replace(n, write) {
		return body.MemoryFull()
	}
	c.request.Release()
	c.request.Recycle()
	h.restart()
	if err := c.parse(body.Source{}); err != nil {
		return err
	}
	c.record.Stream = c.request.Streams()
	return h.admit(c.request.Model())
}

func (h hooks) restart() {
	c := h.call
	c.rates.held.Cancel()
	t := &c.tries
	t.excluded, t.rank = t.excluded[:0], 0
	t.conversation = conversation{prefix: t.conversation.prefix[:0]}
	c.record.Class, c.record.Dropped = "", nil
}

func (h hooks) admit(name []byte) error {
	c := h.call
	if err := c.resolve(name); err != nil {
		return err
	}
	if c.client.conn != nil {
		c.client.conn.Unwatch(c)
	}
	c.public.publish(c.client.requestID, &c.record)
	if c.client.conn != nil && c.client.conn.Watch(c) {
		return failure.FromAbort(failure.ErrClientGone)
	}
	c.times.ask(time.Now())
	return c.admit()
}
