package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"penstock/config"
	"penstock/upstreams/http1"
)

// FeatureTrial is the result of a tiny call that tests a single feature that agents need.
type FeatureTrial struct {
	Name    string       `json:"name"` // for example "text" or "tool call"
	Verdict TrialVerdict `json:"verdict"`
	Text    string       `json:"text"` // explanation for the operator
}

// TrialVerdict is the verdict of a trial.
type TrialVerdict string

// Only TrialBad requires a fix.
const (
	TrialOK      TrialVerdict = "ok"
	TrialBad     TrialVerdict = "bad"
	TrialUnclear TrialVerdict = "unclear" // the model did not cooperate
	TrialSkipped TrialVerdict = "skipped"
)

// Names of the trials on which other trials depend.
const (
	trialToolCall = "tool call"
	trialThinking = "reasoning on"
	trialPrefill  = "prefill"
)

// trialTimeout is the timeout of one call. It includes the time to load the model.
const trialTimeout = 2 * time.Minute

// trialRunner sends trial calls for one model of an engine.
type trialRunner struct {
	transport    *http1.Transport
	profile      *Profile
	reader       PageReader
	model        string
	abortTimeout time.Duration // how long the engine may take to stop after the client has disconnected
	results      []FeatureTrial
}

// RunTrials sends the engine a few tiny calls for the given chat model, or for the engine's first
// chat model if model is empty. Unlike Detect, RunTrials makes the engine generate.
func (d *Detection) RunTrials(ctx context.Context, apiKey, model string) error {
	return d.runTrials(ctx, apiKey, model, defaultAbortTimeout)
}

func (d *Detection) runTrials(ctx context.Context, apiKey, model string, patience time.Duration) error {
	i := slices.IndexFunc(d.Models, func(m ModelInfo) bool {
		kind, _ := d.Profile.modelKind(&m)
		return kind == config.ModelKindChat && (model == "" || m.ID == model)
	})
	switch {
	case d.Profile.Path(config.OpChat) == "":
		return nil // the engine has no chat models
	case i >= 0:
		model = d.Models[i].ID
	case model == "":
		return errors.New("it lists no chat model to try: name one with --model")
	}
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: d.URL, URL: d.URL, APIKey: apiKey}.ProbeOptions())
	if err != nil {
		return err
	}
	defer transport.Close()
	t := &trialRunner{transport: transport, profile: d.Profile, model: model, abortTimeout: patience}
	t.reader = PageReader{transport.PageFetcher(), d.Profile, detectTimeout}
	for _, try := range []func(context.Context){
		t.tryText, t.tryEfforts, t.tryReasoning, t.tryToolCalls, t.trySchema, t.tryPrefill, t.tryAbort,
	} {
		if try(ctx); ctx.Err() != nil {
			return ctx.Err()
		}
		if t.results[0].Verdict != TrialOK {
			break // later trials require that text generation works
		}
	}
	d.Tried, d.TriedModel = t.results, model
	return nil
}

func (t *trialRunner) addResult(name string, v TrialVerdict, text string) {
	t.results = append(t.results, FeatureTrial{name, v, text})
}

func (t *trialRunner) hasPassed(name string) bool {
	return slices.ContainsFunc(t.results, func(r FeatureTrial) bool { return r.Name == name && r.Verdict == TrialOK })
}

// trialAnswer is a response, possibly assembled from the chunks of a stream.
type trialAnswer struct {
	status         int
	text, thinking string
	calls          []toolCall
	err            error
}

type toolCall struct {
	Function struct{ Name, Arguments string }
}

type jsonObject = map[string]any

func userMessage(text string) jsonObject { return jsonObject{"role": "user", "content": text} }

// newRequest returns a chat request with a token limit and additional members.
func (t *trialRunner) newRequest(tokens int, messages []any, more ...jsonObject) jsonObject {
	limit := t.profile.TokenLimitMember()
	if limit == "" {
		limit = config.TokenLimitMaxTokens
	}
	b := jsonObject{"model": t.model, "messages": messages, limit: tokens, "temperature": 0}
	for _, members := range more {
		maps.Copy(b, members)
	}
	return b
}

// requestMemberValues converts profile members to request members.
func requestMemberValues(members []RequestMember) jsonObject {
	out := jsonObject{}
	for _, m := range members {
		out[m.Name] = json.RawMessage(m.Value)
	}
	return out
}

// send sends a request. The caller must call end, which closes the exchange.
func (t *trialRunner) send(ctx context.Context, body jsonObject, until time.Time) (x *http1.Exchange, end func(), err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	x, end = t.transport.ExchangeWithContext(ctx)
	accept := "application/json"
	if body["stream"] == true {
		accept = "text/event-stream"
	}
	err = x.Send(&http1.Request{
		Method: "POST", Path: t.profile.Path(config.OpChat), ContentType: "application/json", Accept: accept,
		Body: [][]byte{text}, ConnectTimeout: detectTimeout, WriteTimeout: detectTimeout, NoReplay: true,
	})
	if err == nil {
		err = x.Await(until)
	}
	return x, end, err
}

func (t *trialRunner) sendAndRead(ctx context.Context, body jsonObject) (a trialAnswer) {
	until := time.Now().Add(trialTimeout)
	x, end, err := t.send(ctx, body, until)
	if end != nil {
		defer end()
	}
	var reply []byte
	for err == nil && len(reply) <= maxGenerationBytes {
		var n int
		reply = slices.Grow(reply, 4<<10)
		n, err = x.Read(reply[len(reply):cap(reply)], until)
		reply = reply[:len(reply)+n]
	}
	if !errors.Is(err, io.EOF) {
		a.err = err
		if err == nil {
			a.err = http1.ErrPageTooLarge
		}
		return a
	}
	a.status = x.Status()
	if bytes.HasPrefix(x.Header("Content-Type"), []byte("text/event-stream")) {
		for line := range bytes.Lines(reply) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				a.parse(data, "delta")
			}
		}
		return a
	}
	a.parse(reply, "message")
	return a
}

// parse parses a whole response, or a chunk of a stream.
func (a *trialAnswer) parse(body []byte, part string) {
	page, err := parseJSON(body)
	if err != nil {
		return
	}
	if hasError(page) && a.status == 200 {
		a.status = 500
	}
	at := "choices.0." + part
	a.text += fieldText(page, at+".content")
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if text := fieldText(page, at+"."+name); text != "" {
			a.thinking += text
			break
		}
	}
	for v := range fieldValues(page, at+".tool_calls.*") {
		var call toolCall
		if text, err := json.Marshal(v); err == nil && json.Unmarshal(text, &call) == nil {
			a.calls = append(a.calls, call)
		}
	}
}

// problemText explains why there is no usable response, or returns "". The explanation does not
// quote the engine.
func (a *trialAnswer) problemText() string {
	switch {
	case a.err != nil && errors.Is(a.err, http1.ErrNoBytesYet):
		return "no answer in " + trialTimeout.String()
	case a.err != nil:
		return "no answer: " + FailureReason(a.err)
	case a.status != 200:
		return "answered with status " + strconv.Itoa(a.status)
	}
	return ""
}
