package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"penstock/config"
)

// The texts of the trials are for the operator. They name the missing flag and do not quote the
// engine.

// thinkingMarkup and toolMarkup contain the markup that models use natively. An engine that has a
// matching parser removes the markup from the text.
var (
	thinkingMarkup = []string{"<think>", "</think>", "<|channel|>", "[THINK]", "<seed:think>"}
	toolMarkup     = []string{
		"<tool_call", "<function=", "<function_call", "<|tool_call", "<|python_tag|>", "[TOOL_CALLS]",
		"<minimax:tool_call>", "<｜tool", "<|channel|>", "<|tool▁",
	}
)

func hasAny(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
}

// advice explains how to enable a feature: with flags or, if flags is empty, with the text in
// without.
func advice(flags, without string) string {
	if flags == "" {
		return without
	}
	return "start the engine with " + flags
}

func (t *trier) toolAdvice() string {
	return advice(t.profile.spec.Flags.Tools, "its template for this model knows no tools, or its parser is another model's")
}

func (t *trier) reasoningAdvice() string {
	return advice(t.profile.spec.Flags.Reasoning, "it has no parser for this model's reasoning")
}

// text requests a single word. If this trial fails, the other trials are skipped.
func (t *trier) text(ctx context.Context) {
	a := t.ask(ctx, t.body(64, []any{userMessage("Say hello.")}))
	switch p := a.problem(); {
	case a.status == 429 || a.status == 503:
		t.add("text", TrialUnclear, "it has no room now: "+p)
	case p != "":
		t.add("text", TrialBad, p)
	case a.text == "" && a.thinking == "" && len(a.calls) == 0:
		t.add("text", TrialBad, "the answer is empty")
	default:
		t.add("text", TrialOK, "it answers")
	}
}

const effortTrial = "efforts"

// efforts tries every reasoning effort that the edge sends to the engine. A model's template may
// accept fewer efforts than its engine, and fail for the others. Each call with an unsupported
// effort wastes a request, because the edge retries the call without the effort.
func (t *trier) efforts(ctx context.Context) {
	form := t.profile.Reasoning()
	words := form.Words
	if len(words) == 0 {
		words = []string{"low", "medium", "high", "xhigh"}
	}
	var taken, refused []string
	status := 0
	for _, word := range words {
		if word == "none" || word == "minimal" { // none has a separate trial, and minimal is never sent
			continue
		}
		a := t.ask(ctx, t.body(1, []any{userMessage("Say hello.")}, object{"reasoning_effort": word}, memberValues(form.On)))
		switch {
		case a.err != nil:
			t.add(effortTrial, TrialUnclear, a.problem())
			return
		case a.status == 200:
			taken = append(taken, word)
		default:
			refused, status = append(refused, word), a.status
		}
	}
	switch all := strings.Join(refused, ", "); {
	case len(refused) == 0 && len(taken) == 0:
		t.add(effortTrial, TrialSkipped, "it is sent none")
	case len(refused) == 0:
		t.add(effortTrial, TrialOK, "it takes "+strings.Join(taken, ", "))
	case len(taken) == 0:
		t.add(effortTrial, TrialUnclear, fmt.Sprintf("it accepts none of %s: answered with status %d; write supported_reasoning_efforts: [] in the model's entry", all, status))
	default:
		listed := slices.DeleteFunc(append([]string{"none"}, taken...), func(word string) bool { return word == "max" })
		t.add(effortTrial, TrialBad, fmt.Sprintf("the model's template fails on %s: answered with status %d; write supported_reasoning_efforts: [%s] in its entry",
			all, status, strings.Join(listed, ", ")))
	}
}

// reasoning requests a response with reasoning, and then one without.
func (t *trier) reasoning(ctx context.Context) {
	const off = "reasoning off"
	form := t.profile.Reasoning()
	effort := func(word string) object {
		if len(form.Words) > 0 && !slices.Contains(form.Words, word) {
			return nil
		}
		return object{"reasoning_effort": word}
	}
	question := []any{userMessage("How much is 17 + 25?")}
	a := t.ask(ctx, t.body(400, question, effort("low"), memberValues(form.On)))
	switch p := a.problem(); {
	case p != "":
		t.add(trialThinking, TrialUnclear, "a reasoning effort is refused: "+p)
	case hasAny(a.text, thinkingMarkup):
		t.add(trialThinking, TrialBad, "the reasoning is in the text: "+t.reasoningAdvice())
	case a.thinking == "":
		t.add(trialThinking, TrialUnclear, "the model did not reason")
	default:
		t.add(trialThinking, TrialOK, "apart from the text")
	}
	if !t.came(trialThinking) {
		t.add(off, TrialSkipped, "there was none to switch off")
		return
	}
	a = t.ask(ctx, t.body(400, question, effort("none"), memberValues(form.Off)))
	switch p := a.problem(); {
	case p != "":
		t.add(off, TrialUnclear, "effort none is refused: "+p)
	case a.thinking != "" || hasAny(a.text, thinkingMarkup):
		t.add(off, TrialUnclear, "the model reasons anyway: leave none out of supported_reasoning_efforts")
	default:
		t.add(off, TrialOK, "it answers at once")
	}
}

var weatherTool = object{"tools": []any{object{"type": "function", "function": object{
	"name": "get_weather", "description": "Tells the weather of a city.",
	"parameters": object{
		"type": "object", "properties": object{"city": object{"type": "string"}}, "required": []string{"city"},
	},
}}}, "tool_choice": "auto"}

// toolCalls requests one tool call, and then two in one response.
func (t *trier) toolCalls(ctx context.Context) {
	const two = "two calls"
	question := userMessage("What is the weather in Paris? Call get_weather to find out.")
	// a model that reasons for a long time would not reach the call
	off := memberValues(t.profile.Reasoning().Off)
	a := t.ask(ctx, t.body(400, []any{question}, weatherTool, off))
	name, arguments := "", map[string]any{}
	var badArguments error
	if len(a.calls) > 0 {
		name = a.calls[0].Function.Name
		badArguments = json.Unmarshal([]byte(a.calls[0].Function.Arguments), &arguments)
	}
	switch p := a.problem(); {
	case p != "" && a.err == nil:
		t.add(trialToolCall, TrialBad, "a request with tools is "+p+": "+t.toolAdvice())
	case p != "":
		t.add(trialToolCall, TrialBad, p)
	case len(a.calls) == 0 && hasAny(a.text, toolMarkup):
		t.add(trialToolCall, TrialBad, "the call is in the text: "+t.toolAdvice())
	case len(a.calls) == 0:
		t.add(trialToolCall, TrialUnclear, "the model called nothing")
	case name != "get_weather":
		t.add(trialToolCall, TrialUnclear, "the model called a tool that there is not")
	case badArguments != nil:
		t.add(trialToolCall, TrialUnclear, "the arguments are no JSON object")
	default:
		t.add(trialToolCall, TrialOK, "a call with its arguments")
	}
	if !t.came(trialToolCall) {
		t.add(two, TrialSkipped, "there was not even one call")
		return
	}
	question = userMessage("What is the weather in Paris, and in Rome? Call get_weather for both at once.")
	a = t.ask(ctx, t.body(600, []any{question}, weatherTool, off, object{"parallel_tool_calls": true}))
	switch p := a.problem(); {
	case p != "":
		t.add(two, TrialUnclear, p)
	case len(a.calls) < 2:
		t.add(two, TrialUnclear, "the model makes one call at a time")
	default:
		t.add(two, TrialOK, fmt.Sprintf("%d calls in one answer", len(a.calls)))
	}
}

// schema requests JSON in a shape that no model would produce by chance.
func (t *trier) schema(ctx context.Context) {
	const name = "schema"
	shape := object{
		"type": "object", "additionalProperties": false, "required": []string{"q7"},
		"properties": object{"q7": object{"type": "string", "enum": []string{"zu", "vo"}}},
	}
	member := "json_schema"
	if t.profile.Forms().ResponseFormat == config.ResponseFormatValue {
		member = "value"
	}
	format := object{"response_format": object{"type": "json_schema", member: object{
		"name": "answer", "strict": true, "schema": shape,
	}}}
	a := t.ask(ctx, t.body(400, []any{userMessage("Say hello.")}, format, memberValues(t.profile.Reasoning().Off)))
	var answer struct{ Q7 string }
	err := json.Unmarshal([]byte(a.text), &answer)
	switch p := a.problem(); {
	case p != "":
		t.add(name, TrialBad, "a JSON schema is refused: "+p+"; leave structured_outputs out of supported_features")
	case err != nil || answer.Q7 != "zu" && answer.Q7 != "vo":
		t.add(name, TrialBad, "the answer is not of the schema: leave structured_outputs out of supported_features")
	default:
		t.add(name, TrialOK, "the answer is of the schema")
	}
}

// prefill starts a response and checks whether the engine continues it. Because a model may also
// continue the count in a new response, there is a second prefill. It stops in the middle of a
// number, so a response that starts with a digit must be a continuation.
func (t *trier) prefill(ctx context.Context) {
	for _, c := range []struct{ begun, next string }{{"1 2 3", "4"}, {"1 2 3 4 5 6 7 8 9 1", "0"}} {
		messages := []any{
			userMessage("Count from 1 to 12, with digits and blanks and nothing else."),
			object{"role": "assistant", "content": c.begun},
		}
		a := t.ask(ctx, t.body(16, messages, memberValues(t.profile.Prefill()), object{"stream": true}))
		next := strings.TrimSpace(a.text)
		if c.next == "0" {
			next = a.text // a space would start another number
		}
		if p := a.problem(); p != "" {
			t.add(trialPrefill, TrialUnclear, "a begun answer is refused: "+p)
			return
		}
		if !strings.HasPrefix(next, c.next) {
			t.add(trialPrefill, TrialUnclear, "it does not continue "+strconv.Quote(c.begun)+", so nothing is proven")
			return
		}
	}
	t.add(trialPrefill, TrialOK, "proven, it continues a begun answer")
}

// abortWithin is how long the engine may take to notice that the client has disconnected.
const abortWithin = 10 * time.Second

// abort closes the connection during a stream and checks whether the engine stops generating.
func (t *trier) abort(ctx context.Context) {
	const name = "abort"
	before, _, _, known := t.reader.Load(ctx, 0)
	if !known {
		t.add(name, TrialSkipped, "it does not report its load")
		return
	}
	body := t.body(4000, []any{userMessage("Count from 1 to 1000.")}, object{"stream": true})
	x, end, err := t.send(ctx, body, time.Now().Add(trialTimeout))
	if end != nil {
		defer end()
	}
	if err == nil {
		_, err = x.Read(make([]byte, 64), time.Now().Add(trialTimeout))
	}
	if err != nil {
		t.add(name, TrialUnclear, "there was no stream to leave")
		return
	}
	if during, _, _, _ := t.reader.Load(ctx, 0); during.Running <= before.Running {
		t.add(name, TrialUnclear, "it was done before it could be left")
		return
	}
	x.Abort(context.Canceled)
	left := time.Now()
	for time.Since(left) < t.patience && ctx.Err() == nil {
		if load, _, _, ok := t.reader.Load(ctx, 0); ok && load.Running <= before.Running {
			t.add(name, TrialOK, fmt.Sprintf("the slot is free after %d ms", time.Since(left).Milliseconds()))
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(t.patience / 50):
		}
	}
	t.add(name, TrialBad, "it keeps generating after the client has left: others wait for the slot")
}

// FlagFor returns the flag that an engine needs for a feature (tools, forced_tool, effort), or ""
// if the profile names no flag.
func FlagFor(p *Profile, feature string) string {
	switch feature {
	case "tools", "forced_tool":
		return p.spec.Flags.Tools
	case "effort":
		return p.spec.Flags.Reasoning
	}
	return ""
}
