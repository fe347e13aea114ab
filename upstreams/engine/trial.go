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

// Trial is the result of one tiny call that tests one thing that agents need from an engine.
type Trial struct {
	Name    string       `json:"name"` // "text", "tool call" and so on
	Verdict TrialVerdict `json:"verdict"`
	Text    string       `json:"text"` // explanation for the operator
}

// TrialVerdict is the verdict of a trial.
type TrialVerdict string

// The verdicts. Only TrialBad asks for a fix.
const (
	TrialOK      TrialVerdict = "ok"
	TrialBad     TrialVerdict = "bad"
	TrialUnclear TrialVerdict = "unclear" // the model did not do what the trial needs
	TrialSkipped TrialVerdict = "skipped"
)

// These trials are named because other trials depend on them.
const (
	trialToolCall = "tool call"
	trialThinking = "reasoning on"
	trialPrefill  = "prefill"
)

// trialTimeout is the time limit of one call, including the loading of a model that is not in
// memory.
const trialTimeout = 2 * time.Minute

// trier sends trial calls to one of an engine's models.
type trier struct {
	transport *http1.Transport
	profile   *Profile
	reader    Reader
	model     string
	patience  time.Duration // maximum time for the engine to notice that the client has left
	tried     []Trial
}

// Try sends the engine some tiny calls for the given chat model, or for its first chat model if
// none is given. Try generates; Detect never does.
func (d *Detection) Try(ctx context.Context, apiKey, model string) error {
	return d.try(ctx, apiKey, model, abortWithin)
}

func (d *Detection) try(ctx context.Context, apiKey, model string, patience time.Duration) error {
	i := slices.IndexFunc(d.Models, func(m ModelInfo) bool {
		kind, _ := d.Profile.kindOf(&m)
		return kind == config.KindChat && (model == "" || m.ID == model)
	})
	switch {
	case d.Profile.Path(config.OpChat) == "":
		return nil // the engine has another purpose
	case i >= 0:
		model = d.Models[i].ID
	case model == "":
		return errors.New("it lists no chat model to try: name one with --model")
	}
	transport, err := http1.NewTransport(http1.TransportOptions{Upstream: d.URL, URL: d.URL, APIKey: apiKey}.ForProbes())
	if err != nil {
		return err
	}
	defer transport.Close()
	t := &trier{transport: transport, profile: d.Profile, model: model, patience: patience}
	t.reader = Reader{transport.Pages(), d.Profile, detectTimeout}
	for _, try := range []func(context.Context){
		t.text, t.efforts, t.reasoning, t.toolCalls, t.schema, t.prefill, t.abort,
	} {
		if try(ctx); ctx.Err() != nil {
			return ctx.Err()
		}
		if t.tried[0].Verdict != TrialOK {
			break // the engine cannot even write text
		}
	}
	d.Tried, d.TriedModel = t.tried, model
	return nil
}

// add records the result of a trial.
func (t *trier) add(name string, v TrialVerdict, text string) {
	t.tried = append(t.tried, Trial{name, v, text})
}

// came reports whether the trial with the given name passed.
func (t *trier) came(name string) bool {
	return slices.ContainsFunc(t.tried, func(r Trial) bool { return r.Name == name && r.Verdict == TrialOK })
}

// trialAnswer is a whole answer, or an answer assembled from a stream's chunks.
type trialAnswer struct {
	status         int
	text, thinking string
	calls          []toolCall
	err            error
}

type toolCall struct {
	Function struct{ Name, Arguments string }
}

// object holds the members of a request.
type object = map[string]any

func userMessage(text string) object { return object{"role": "user", "content": text} }

// body returns a chat request for at most the given number of tokens, with further members.
func (t *trier) body(tokens int, messages []any, more ...object) object {
	limit := t.profile.TokenLimitMember()
	if limit == "" {
		limit = config.TokenLimitMaxTokens
	}
	b := object{"model": t.model, "messages": messages, limit: tokens, "temperature": 0}
	for _, members := range more {
		maps.Copy(b, members)
	}
	return b
}

// memberValues returns a profile's members as members of a request.
func memberValues(members []Member) object {
	out := object{}
	for _, m := range members {
		out[m.Name] = json.RawMessage(m.Value)
	}
	return out
}

// send sends a request. The caller closes the exchange.
func (t *trier) send(ctx context.Context, body object, until time.Time) (x *http1.Exchange, end func(), err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	x, end = t.transport.ExchangeWhile(ctx)
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

// ask sends a request and reads its answer to the end.
func (t *trier) ask(ctx context.Context, body object) (a trialAnswer) {
	until := time.Now().Add(trialTimeout)
	x, end, err := t.send(ctx, body, until)
	if end != nil {
		defer end()
	}
	var reply []byte
	for err == nil && len(reply) <= generationMax {
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
				a.read(data, "delta")
			}
		}
		return a
	}
	a.read(reply, "message")
	return a
}

// read parses a whole answer, or a chunk of a stream.
func (a *trialAnswer) read(body []byte, part string) {
	page, err := parseJSON(body)
	if err != nil {
		return
	}
	if failed(page) && a.status == 200 {
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
	for v := range fields(page, at+".tool_calls.*") {
		var call toolCall
		if text, err := json.Marshal(v); err == nil && json.Unmarshal(text, &call) == nil {
			a.calls = append(a.calls, call)
		}
	}
}

// problem explains why there is no answer; empty if there is one. The explanation does not quote
// the engine's text.
func (a *trialAnswer) problem() string {
	switch {
	case a.err != nil && errors.Is(a.err, http1.ErrNotYet):
		return "no answer in " + trialTimeout.String()
	case a.err != nil:
		return "no answer: " + ReasonOf(a.err)
	case a.status != 200:
		return "answered with status " + strconv.Itoa(a.status)
	}
	return ""
}
