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

// The texts of the trials are written for the operator. They contain the name of the missing flag
// and do not quote the engine.

// thinkingMarkup and toolMarkup contain the markup that models generate for reasoning and tool
// calls. An engine that has a suitable parser removes this markup from the text.
var (
	thinkingMarkup = []string{"<think>", "</think>", "<|channel|>", "[THINK]", "<seed:think>"}
	toolMarkup     = []string{
		"<tool_call", "<function=", "<function_call", "<|tool_call", "<|python_tag|>", "[TOOL_CALLS]",
		"<minimax:tool_call>", "<｜tool", "<|channel|>", "<|tool▁",
	}
)

func containsAny(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(text, m) })
}

// flagAdvice advises the operator to start the engine with the given flags. If there are no
// flags, the advice is the text of the parameter without.
func flagAdvice(flags, without string) string {
	if flags == "" {
		return without
	}
	return "start the engine with " + flags
}

func (t *trialRunner) toolAdvice() string {
	return flagAdvice(t.profile.spec.Flags.Tools, "its template for this model knows no tools, or its parser is another model's")
}

func (t *trialRunner) reasoningAdvice() string {
	return flagAdvice(t.profile.spec.Flags.Reasoning, "it has no parser for this model's reasoning")
}

// tryText requests a single word. If this trial fails, the other trials are skipped.
func (t *trialRunner) tryText(ctx context.Context) {
	a := t.sendAndRead(ctx, t.newRequest(64, []any{userMessage("Say hello.")}))
	switch p := a.problemText(); {
	case a.status == 429 || a.status == 503:
		t.addResult("text", TrialUnclear, "it has no room now: "+p)
	case p != "":
		t.addResult("text", TrialBad, p)
	case a.text == "" && a.thinking == "" && len(a.calls) == 0:
		t.addResult("text", TrialBad, "the answer is empty")
	default:
		t.addResult("text", TrialOK, "it answers")
	}
}

const effortTrial = "efforts"

// tryEfforts tries every reasoning effort that the edge sends to the engine. A model's template may
// accept fewer efforts than its engine, and fail for other efforts. Each call with an unsupported
// effort costs an additional request, because the edge retries the call without the effort.
func (t *trialRunner) tryEfforts(ctx context.Context) {
	form := t.profile.Reasoning()
	words := form.Words
	if len(words) == 0 {
		words = []string{"low", "medium", "high", "xhigh"}
	}
	var taken, refused []string
	status := 0
	for _, word := range words {
		if word == "none" || word == "minimal" { // none has its own trial, and minimal is never sent
			continue
		}
		a := t.sendAndRead(ctx, t.newRequest(1, []any{userMessage("Say hello.")}, jsonObject{"reasoning_effort": word}, requestMemberValues(form.On)))
		switch {
		case a.err != nil:
			t.addResult(effortTrial, TrialUnclear, a.problemText())
			return
		case a.status == 200:
			taken = append(taken, word)
		default:
			refused, status = append(refused, word), a.status
		}
	}
	switch all := strings.Join(refused, ", "); {
	case len(refused) == 0 && len(taken) == 0:
		t.addResult(effortTrial, TrialSkipped, "it is sent none")
	case len(refused) == 0:
		t.addResult(effortTrial, TrialOK, "it takes "+strings.Join(taken, ", "))
	case len(taken) == 0:
		t.addResult(effortTrial, TrialUnclear, fmt.Sprintf("it accepts none of %s: answered with status %d; write supported_reasoning_efforts: [] in the model's entry", all, status))
	default:
		listed := slices.DeleteFunc(append([]string{"none"}, taken...), func(word string) bool { return word == "max" })
		t.addResult(effortTrial, TrialBad, fmt.Sprintf("the model's template fails on %s: answered with status %d; write supported_reasoning_efforts: [%s] in its entry",
			all, status, strings.Join(listed, ", ")))
	}
}

// tryReasoning requests a response with reasoning, and then a response without reasoning.
func (t *trialRunner) tryReasoning(ctx context.Context) {
	const off = "reasoning off"
	form := t.profile.Reasoning()
	effort := func(word string) jsonObject {
		if len(form.Words) > 0 && !slices.Contains(form.Words, word) {
			return nil
		}
		return jsonObject{"reasoning_effort": word}
	}
	question := []any{userMessage("How much is 17 + 25?")}
	a := t.sendAndRead(ctx, t.newRequest(400, question, effort("low"), requestMemberValues(form.On)))
	switch p := a.problemText(); {
	case p != "":
		t.addResult(trialThinking, TrialUnclear, "a reasoning effort is refused: "+p)
	case containsAny(a.text, thinkingMarkup):
		t.addResult(trialThinking, TrialBad, "the reasoning is in the text: "+t.reasoningAdvice())
	case a.thinking == "":
		t.addResult(trialThinking, TrialUnclear, "the model did not reason")
	default:
		t.addResult(trialThinking, TrialOK, "apart from the text")
	}
	if !t.hasPassed(trialThinking) {
		t.addResult(off, TrialSkipped, "there was none to switch off")
		return
	}
	a = t.sendAndRead(ctx, t.newRequest(400, question, effort("none"), requestMemberValues(form.Off)))
	switch p := a.problemText(); {
	case p != "":
		t.addResult(off, TrialUnclear, "effort none is refused: "+p)
	case a.thinking != "" || containsAny(a.text, thinkingMarkup):
		t.addResult(off, TrialUnclear, "the model reasons anyway: leave none out of supported_reasoning_efforts")
	default:
		t.addResult(off, TrialOK, "it answers at once")
	}
}

var weatherTool = jsonObject{"tools": []any{jsonObject{"type": "function", "function": jsonObject{
	"name": "get_weather", "description": "Tells the weather of a city.",
	"parameters": jsonObject{
		"type": "object", "properties": jsonObject{"city": jsonObject{"type": "string"}}, "required": []string{"city"},
	},
}}}, "tool_choice": "auto"}

// tryToolCalls requests one tool call, and then two tool calls in one response.
func (t *trialRunner) tryToolCalls(ctx context.Context) {
	const two = "two calls"
	question := userMessage("What is the weather in Paris? Call get_weather to find out.")
	// A model that reasons for a long time would reach the token limit before the call.
	off := requestMemberValues(t.profile.Reasoning().Off)
	a := t.sendAndRead(ctx, t.newRequest(400, []any{question}, weatherTool, off))
	name, arguments := "", map[string]any{}
	var badArguments error
	if len(a.calls) > 0 {
		name = a.calls[0].Function.Name
		badArguments = json.Unmarshal([]byte(a.calls[0].Function.Arguments), &arguments)
	}
	switch p := a.problemText(); {
	case p != "" && a.err == nil:
		t.addResult(trialToolCall, TrialBad, "a request with tools is "+p+": "+t.toolAdvice())
	case p != "":
		t.addResult(trialToolCall, TrialBad, p)
	case len(a.calls) == 0 && containsAny(a.text, toolMarkup):
		t.addResult(trialToolCall, TrialBad, "the call is in the text: "+t.toolAdvice())
	case len(a.calls) == 0:
		t.addResult(trialToolCall, TrialUnclear, "the model called nothing")
	case name != "get_weather":
		t.addResult(trialToolCall, TrialUnclear, "the model called a tool that there is not")
	case badArguments != nil:
		t.addResult(trialToolCall, TrialUnclear, "the arguments are no JSON object")
	default:
		t.addResult(trialToolCall, TrialOK, "a call with its arguments")
	}
	if !t.hasPassed(trialToolCall) {
		t.addResult(two, TrialSkipped, "there was not even one call")
		return
	}
	question = userMessage("What is the weather in Paris, and in Rome? Call get_weather for both at once.")
	a = t.sendAndRead(ctx, t.newRequest(600, []any{question}, weatherTool, off, jsonObject{"parallel_tool_calls": true}))
	switch p := a.problemText(); {
	case p != "":
		t.addResult(two, TrialUnclear, p)
	case len(a.calls) < 2:
		t.addResult(two, TrialUnclear, "the model makes one call at a time")
	default:
		t.addResult(two, TrialOK, fmt.Sprintf("%d calls in one answer", len(a.calls)))
	}
}

// trySchema requests JSON in a shape that no model would produce by chance.
func (t *trialRunner) trySchema(ctx context.Context) {
	const name = "schema"
	shape := jsonObject{
		"type": "object", "additionalProperties": false, "required": []string{"q7"},
		"properties": jsonObject{"q7": jsonObject{"type": "string", "enum": []string{"zu", "vo"}}},
	}
	member := "json_schema"
	if t.profile.RequestForms().ResponseFormat == config.ResponseFormatValue {
		member = "value"
	}
	format := jsonObject{"response_format": jsonObject{"type": "json_schema", member: jsonObject{
		"name": "answer", "strict": true, "schema": shape,
	}}}
	a := t.sendAndRead(ctx, t.newRequest(400, []any{userMessage("Say hello.")}, format, requestMemberValues(t.profile.Reasoning().Off)))
	var answer struct{ Q7 string }
	err := json.Unmarshal([]byte(a.text), &answer)
	switch p := a.problemText(); {
	case p != "":
		t.addResult(name, TrialBad, "a JSON schema is refused: "+p+"; leave structured_outputs out of supported_features")
	case err != nil || answer.Q7 != "zu" && answer.Q7 != "vo":
		t.addResult(name, TrialBad, "the answer is not of the schema: leave structured_outputs out of supported_features")
	default:
		t.addResult(name, TrialOK, "the answer is of the schema")
	}
}

// tryPrefill sends the start of a response and checks whether the engine continues it. A model may
// also continue the count in a new response, so there is a second prefill. It ends in the middle of
// a number, so a response that starts with a digit must be a continuation.
func (t *trialRunner) tryPrefill(ctx context.Context) {
	for _, c := range []struct{ begun, next string }{{"1 2 3", "4"}, {"1 2 3 4 5 6 7 8 9 1", "0"}} {
		messages := []any{
			userMessage("Count from 1 to 12, with digits and blanks and nothing else."),
			jsonObject{"role": "assistant", "content": c.begun},
		}
		a := t.sendAndRead(ctx, t.newRequest(16, messages, requestMemberValues(t.profile.PrefillMembers()), jsonObject{"stream": true}))
		next := strings.TrimSpace(a.text)
		if c.next == "0" {
			next = a.text // not trimmed, because a space would start another number
		}
		if p := a.problemText(); p != "" {
			t.addResult(trialPrefill, TrialUnclear, "a begun answer is refused: "+p)
			return
		}
		if !strings.HasPrefix(next, c.next) {
			t.addResult(trialPrefill, TrialUnclear, "it does not continue "+strconv.Quote(c.begun)+", so nothing is proven")
			return
		}
	}
	t.addResult(trialPrefill, TrialOK, "proven, it continues a begun answer")
}

// defaultAbortTimeout is how long the engine may take to stop after the client has disconnected.
const defaultAbortTimeout = 10 * time.Second

// tryAbort closes the connection during a stream and checks whether the engine stops generating.
func (t *trialRunner) tryAbort(ctx context.Context) {
	const name = "abort"
	before, _, _, known := t.reader.ReadLoad(ctx, 0)
	if !known {
		t.addResult(name, TrialSkipped, "it does not report its load")
		return
	}
	body := t.newRequest(4000, []any{userMessage("Count from 1 to 1000.")}, jsonObject{"stream": true})
	x, end, err := t.send(ctx, body, time.Now().Add(trialTimeout))
	if end != nil {
		defer end()
	}
	if err == nil {
		_, err = x.Read(make([]byte, 64), time.Now().Add(trialTimeout))
	}
	if err != nil {
		t.addResult(name, TrialUnclear, "there was no stream to leave")
		return
	}
	if during, _, _, _ := t.reader.ReadLoad(ctx, 0); during.Running <= before.Running {
		t.addResult(name, TrialUnclear, "it was done before it could be left")
		return
	}
	x.Abort(context.Canceled)
	left := time.Now()
	for time.Since(left) < t.abortTimeout && ctx.Err() == nil {
		if load, _, _, ok := t.reader.ReadLoad(ctx, 0); ok && load.Running <= before.Running {
			t.addResult(name, TrialOK, fmt.Sprintf("the slot is free after %d ms", time.Since(left).Milliseconds()))
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(t.abortTimeout / 50):
		}
	}
	t.addResult(name, TrialBad, "it keeps generating after the client has left: others wait for the slot")
}

// FeatureFlag returns the flag that enables a feature (tools, forced_tool, effort) of an engine, or
// "" if the profile contains no flag for it.
func FeatureFlag(p *Profile, feature string) string {
	switch feature {
	case "tools", "forced_tool":
		return p.spec.Flags.Tools
	case "effort":
		return p.spec.Flags.Reasoning
	}
	return ""
}
