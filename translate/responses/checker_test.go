package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// This file checks response objects and streams like a published schema of the dialect: the
// required members, their types, and the order of events. It does not use code from the package.

type checker struct{ problems []string }

func (c *checker) failf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) report(t *testing.T, out []byte) {
	t.Helper()
	if len(c.problems) > 0 {
		t.Errorf("the stream breaks its grammar: %s\nin:\n%s", strings.Join(c.problems, "\n"), out)
	}
}

// shape maps the members of an object to functions that return what is wrong, or "".
type shape map[string]func(any) string

func isType[T any](want string) func(any) string {
	return func(v any) string {
		if _, ok := v.(T); !ok {
			return "must be " + want
		}
		return ""
	}
}

var (
	aString  = isType[string]("a string")
	aBool    = isType[bool]("a boolean")
	anObject = isType[map[string]any]("an object")
	anArray  = isType[[]any]("an array")
	aNumber  = isType[float64]("a number")
)

func anInteger(v any) string {
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || f < 0 {
		return "must be an integer of 0 or more"
	}
	return ""
}

func null(v any) string {
	if v != nil {
		return "must be null"
	}
	return ""
}

func orNull(f func(any) string) func(any) string {
	return func(v any) string {
		if v == nil {
			return ""
		}
		return f(v)
	}
}

func exactly(want ...any) func(any) string {
	return func(v any) string {
		for _, w := range want {
			if cmp.Equal(v, w) {
				return ""
			}
		}
		return fmt.Sprintf("must be one of %v, is %v", want, v)
	}
}

func hasPrefix(prefix string) func(any) string {
	return func(v any) string {
		if s, ok := v.(string); !ok || !strings.HasPrefix(s, prefix) || len(s) < len(prefix)+4 {
			return "must begin with " + prefix
		}
		return ""
	}
}

func stringOrObject(v any) string {
	if aString(v) != "" && anObject(v) != "" {
		return "must be a string or an object"
	}
	return ""
}

// object checks that v has all members in want, and no others except the optional ones.
func (c *checker) object(at string, v any, want shape, optional ...string) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		c.failf("%s must be an object, is %T", at, v)
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		member, ok := m[name]
		if !ok {
			if !slices.Contains(optional, name) {
				c.failf("%s.%s is missing", at, name)
			}
			continue
		}
		if problem := want[name](member); problem != "" {
			c.failf("%s.%s %s", at, name, problem)
		}
	}
	for name := range m {
		if want[name] == nil {
			c.failf("%s.%s is not in the tables", at, name)
		}
	}
	return m
}

// eventCodes accepts all error codes that may occur in events.
var eventCodes = exactly("server_error", "rate_limit_exceeded", "invalid_prompt", "context_length_exceeded", "invalid_image", "image_too_large")

var responseShape = shape{
	"id": hasPrefix("resp_"), "object": exactly("response"), "created_at": anInteger, "completed_at": orNull(anInteger),
	"status": exactly("in_progress", "completed", "incomplete", "failed"), "incomplete_details": orNull(anObject), "model": aString,
	"previous_response_id": null, "instructions": orNull(aString), "output": anArray, "error": orNull(anObject), "tools": anArray,
	"tool_choice": stringOrObject, "truncation": exactly("disabled"), "parallel_tool_calls": aBool, "text": anObject,
	"top_p": aNumber, "presence_penalty": aNumber, "frequency_penalty": aNumber, "top_logprobs": anInteger, "temperature": aNumber,
	"reasoning": anObject, "usage": orNull(anObject), "max_output_tokens": orNull(anInteger), "max_tool_calls": orNull(anInteger),
	"store": exactly(false), "background": exactly(false), "service_tier": exactly("default"), "metadata": anObject,
	"safety_identifier": orNull(aString), "prompt_cache_key": null,
}

func (c *checker) response(v any) (status string) {
	m := c.object("response", v, responseShape)
	if len(c.problems) > 0 {
		return ""
	}
	status = m["status"].(string)
	c.object("response.reasoning", m["reasoning"], shape{"effort": orNull(aString), "summary": orNull(aString)})
	c.text(m["text"])
	for i, tool := range m["tools"].([]any) {
		at := fmt.Sprintf("response.tools[%d]", i)
		if m, _ := tool.(map[string]any); m["type"] != "function" { // the client may set any members
			c.object(at, map[string]any{"type": m["type"], "name": m["name"]}, shape{"type": exactly("namespace", "custom"), "name": aString})
			continue
		}
		c.object(at, tool, shape{
			"type": exactly("function"), "name": aString, "description": orNull(aString), "parameters": orNull(anObject), "strict": orNull(aBool),
		})
	}
	if (status == "completed") != (m["completed_at"] != nil) {
		c.failf("completed_at is %v of a response that is %s", m["completed_at"], status)
	}
	if (status == "incomplete") != (m["incomplete_details"] != nil) {
		c.failf("incomplete_details is %v of a response that is %s", m["incomplete_details"], status)
	} else if status == "incomplete" {
		c.object("response.incomplete_details", m["incomplete_details"], shape{"reason": exactly("max_output_tokens", "content_filter")})
	}
	if (status == "failed") != (m["error"] != nil) {
		c.failf("error is %v of a response that is %s", m["error"], status)
	} else if status == "failed" {
		c.object("response.error", m["error"], shape{"code": eventCodes, "message": aString})
	}
	if m["usage"] != nil {
		c.usage(m["usage"])
	} else if status == "completed" || status == "incomplete" {
		c.failf("usage is null of a response that is %s", status)
	}
	ids, calls := map[any]bool{}, map[any]bool{}
	output := m["output"].([]any)
	for i, item := range output {
		state := c.item(fmt.Sprintf("response.output[%d]", i), item)
		m, _ := item.(map[string]any)
		if ids[m["id"]] || m["call_id"] != nil && calls[m["call_id"]] {
			c.failf("output[%d] has the id or call_id of another item", i)
		}
		ids[m["id"]], calls[m["call_id"]] = true, true
		switch {
		case state == "in_progress":
			c.failf("output[%d] is in progress in a response object", i)
		case state == "incomplete" && (i != len(output)-1 || status != "incomplete" && status != "failed"):
			c.failf("output[%d] is incomplete, number %d of %d of a response that is %s", i, i+1, len(output), status)
		}
	}
	return status
}

func (c *checker) text(v any) {
	text := c.object("response.text", v, shape{"format": anObject, "verbosity": aString}, "verbosity")
	format, _ := text["format"].(map[string]any)
	switch format["type"] {
	case "text", "json_object":
		c.object("response.text.format", format, shape{"type": aString})
	default:
		c.object("response.text.format", format, shape{
			"type": exactly("json_schema"), "name": aString, "description": orNull(aString), "schema": anObject, "strict": aBool,
		})
	}
}

func (c *checker) usage(v any) {
	m := c.object("response.usage", v, shape{
		"input_tokens": anInteger, "input_tokens_details": anObject, "output_tokens": anInteger, "output_tokens_details": anObject, "total_tokens": anInteger,
	})
	c.object("response.usage.input_tokens_details", m["input_tokens_details"], shape{"cached_tokens": anInteger})
	c.object("response.usage.output_tokens_details", m["output_tokens_details"], shape{"reasoning_tokens": anInteger})
}

var statuses = exactly("in_progress", "completed", "incomplete")

func (c *checker) item(at string, v any) string {
	m, _ := v.(map[string]any)
	switch m["type"] {
	case "message":
		c.object(at, v, shape{
			"id": hasPrefix("msg_"), "type": aString, "status": statuses, "role": exactly("assistant"), "content": anArray,
		})
		content, _ := m["content"].([]any)
		for i, p := range content {
			c.part(fmt.Sprintf("%s.content[%d]", at, i), p)
		}
	case "reasoning":
		c.object(at, v, shape{"id": hasPrefix("rs_"), "type": aString, "summary": emptyArray, "encrypted_content": orNull(aString)})
	case "compaction":
		c.object(at, v, shape{"id": hasPrefix("cmp_"), "type": aString, "encrypted_content": orNull(aString)})
	case "custom_tool_call":
		c.object(at, v, shape{
			"id": hasPrefix("ctc_"), "type": aString, "status": statuses, "call_id": aString, "name": aString, "input": aString, "namespace": aString,
		}, "namespace")
		if m["call_id"] == "" {
			c.failf("%s.call_id is empty", at)
		}
	default:
		c.object(at, v, shape{
			"id": hasPrefix("fc_"), "type": exactly("function_call"), "status": statuses, "call_id": aString, "name": aString, "arguments": aString,
			"namespace": aString,
		}, "namespace")
		if m["call_id"] == "" {
			c.failf("%s.call_id is empty", at)
		}
	}
	status, _ := m["status"].(string)
	return status
}

func (c *checker) part(at string, v any) {
	m, _ := v.(map[string]any)
	if m["type"] == "refusal" {
		c.object(at, v, shape{"type": aString, "refusal": aString})
		return
	}
	c.object(at, v, shape{"type": exactly("output_text"), "text": aString, "annotations": emptyArray, "logprobs": anArray})
}

func emptyArray(v any) string {
	if a, ok := v.([]any); !ok || len(a) > 0 {
		return "must be an empty array"
	}
	return ""
}

func checkResponse(t *testing.T, out []byte) {
	t.Helper()
	var c checker
	var v any
	if err := json.Unmarshal(out, &v); err != nil || bytes.ContainsAny(out, "\n\r") {
		c.failf("not one line of JSON: %v", err)
	} else if status := c.response(v); status == "in_progress" || status == "failed" {
		c.failf("a whole answer is %s", status)
	}
	c.report(t, out)
}

type event struct {
	name string
	data map[string]any
}

// parseEvents parses a stream strictly. An event must consist of two lines and a blank line.
func parseEvents(c *checker, out []byte) (events []event, done bool) {
	text, ok := strings.CutSuffix(string(out), "\n\n")
	if !ok {
		if len(out) > 0 {
			c.failf("does not end with a blank line")
		}
		return nil, false
	}
	for block := range strings.SplitSeq(text, "\n\n") {
		if done {
			c.failf("something follows [DONE]: %q", block)
		}
		if strings.HasPrefix(block, ": ") && !strings.Contains(block, "\n") {
			continue
		}
		if block == "data: [DONE]" {
			done = true
			continue
		}
		name, data, ok := strings.Cut(block, "\ndata: ")
		name, named := strings.CutPrefix(name, "event: ")
		e := event{name: name}
		if !ok || !named || strings.ContainsAny(data, "\n\r") || json.Unmarshal([]byte(data), &e.data) != nil {
			c.failf("not an event: %q", block)
			continue
		}
		events = append(events, e)
	}
	return events, done
}

// eventChecker checks the order of a stream's events.
type eventChecker struct {
	*checker
	items []any // completed items
	open  bool  // an item is open
	item  map[string]any
	part  map[string]any // the open part of the open item
	parts []any          // the completed parts of the open item
	sum   string         // the joined deltas
	logs  []any          // log probabilities in the deltas
	id    any
	last  string // status in the final response
	error bool
	alive bool // the stream may contain keep-alives
}

// checkEvents checks a stream. If whole is true, the stream must be complete.
func checkEvents(t *testing.T, out []byte, whole bool) {
	t.Helper()
	checkWalk(t, &eventChecker{}, out, whole)
}

// checkKeptAlive checks the events of a whole stream with keep-alives.
func checkKeptAlive(t *testing.T, out []byte) {
	t.Helper()
	checkWalk(t, &eventChecker{alive: true}, out, true)
}

func checkWalk(t *testing.T, w *eventChecker, out []byte, whole bool) {
	t.Helper()
	var c checker
	events, done := parseEvents(&c, out)
	w.checker = &c
	for i, e := range events {
		if e.data["type"] != e.name {
			c.failf("event %q has type %v", e.name, e.data["type"])
		}
		if e.data["sequence_number"] != float64(i) {
			c.failf("event %d (%s) has sequence_number %v", i, e.name, e.data["sequence_number"])
		}
		delete(e.data, "type")
		delete(e.data, "sequence_number")
		w.event(i, e)
		if len(c.problems) > 5 {
			break
		}
	}
	if done != (w.last != "") || whole && !done {
		c.failf("[DONE]: %v; final event: %q", done, w.last)
	}
	c.report(t, out)
}

func (w *eventChecker) event(i int, e event) {
	if w.last != "" {
		w.failf("%s behind the final event", e.name)
	}
	switch want := map[int]string{0: "response.created", 1: "response.in_progress"}[i]; {
	case want != "" && e.name != want:
		w.failf("event %d is %s instead of %s", i, e.name, want)
	case w.error && e.name != "response.failed":
		w.failf("%s behind error", e.name)
	}
	switch e.name {
	case "response.created", "response.in_progress":
		w.object(e.name, e.data, shape{"response": anObject})
		if status := w.response(e.data["response"]); status != "in_progress" || i > 1 && (!w.alive || e.name == "response.created") {
			w.failf("event %d is %s with a response that is %s", i, e.name, status)
		}
		if w.alive && i > 1 {
			w.checkSoFar(e)
		}
		w.id = id(e.data["response"])
	case "response.completed", "response.incomplete", "response.failed":
		w.checkFinal(e)
	case "error":
		w.error = true
		m := w.object(e.name, e.data, shape{"code": eventCodes, "message": aString, "param": orNull(aString), "error": anObject})
		w.object("error.error", m["error"], shape{"type": aString, "code": eventCodes, "message": aString, "param": orNull(aString)})
	case "response.output_item.added":
		w.checkAdded(e)
	case "response.output_item.done":
		w.checkItemDone(e)
	default:
		w.checkInItem(e)
	}
}

func id(response any) any {
	m, _ := response.(map[string]any)
	return m["id"]
}

// checkSoFar checks that a keep-alive contains the response so far. If an item is open, it must not
// have deltas yet, because otherwise the keep-alive would have to be a delta.
func (w *eventChecker) checkSoFar(e event) {
	response, _ := e.data["response"].(map[string]any)
	want := w.items
	if w.open {
		want = append(slices.Clip(want), w.item)
	}
	if d := cmp.Diff(any(want), response["output"]); id(response) != w.id || w.open && !isSealed(w.item) || d != "" && len(want) > 0 {
		w.failf("%s shows another output (-so far +shown):\n%s", e.name, d)
	}
}

// isSealed reports whether an item contains no text that the client can read.
func isSealed(item map[string]any) bool {
	return item["type"] == "reasoning" || item["type"] == "compaction"
}

func (w *eventChecker) checkFinal(e event) {
	w.object(e.name, e.data, shape{"response": anObject})
	w.last = w.response(e.data["response"])
	if "response."+w.last != e.name || id(e.data["response"]) != w.id {
		w.failf("%s with a response that is %s, id %v and before %v", e.name, w.last, id(e.data["response"]), w.id)
	}
	response, _ := e.data["response"].(map[string]any)
	output, _ := response["output"].([]any)
	if w.last == "failed" {
		if !w.error {
			w.failf("response.failed without an error before it")
		}
		if w.open && len(output) == len(w.items)+1 { // the open item in its current state
			output = output[:len(w.items)]
		}
	} else if w.open {
		w.failf("%s while an item is open", e.name)
	}
	if d := cmp.Diff(w.items, output); d != "" && len(w.items)+len(output) > 0 {
		w.failf("the items that were done are not the output (-done +output):\n%s", d)
	}
}

func (w *eventChecker) checkAdded(e event) {
	w.object(e.name, e.data, shape{"output_index": exactly(float64(len(w.items))), "item": anObject})
	if w.open {
		w.failf("an item is added while another is open")
	}
	w.item, _ = e.data["item"].(map[string]any)
	if status := w.checker.item("item", w.item); status != "in_progress" && (!isSealed(w.item) || w.item["encrypted_content"] != nil) {
		w.failf("an item is added that is %s", status)
	}
	w.open, w.part, w.parts, w.sum = true, nil, []any{}, ""
	if text, call := callText(w.item); call && text != "" || w.item["type"] == "message" && emptyArray(w.item["content"]) != "" {
		w.failf("an item is added that is not empty")
	}
}

func (w *eventChecker) checkItemDone(e event) {
	w.object(e.name, e.data, shape{"output_index": exactly(float64(len(w.items))), "item": anObject})
	item, _ := e.data["item"].(map[string]any)
	if status := w.checker.item("item", item); status == "in_progress" || !w.open || w.part != nil {
		w.failf("an item is done (%s), but open is %v and its part %v", status, w.open, w.part)
	}
	if item["id"] != w.item["id"] || item["type"] != w.item["type"] || item["call_id"] != w.item["call_id"] || item["name"] != w.item["name"] {
		w.failf("another item is done than was added: %v, %v", item, w.item)
	}
	if item["type"] == "message" && !cmp.Equal(item["content"], any(w.parts)) {
		w.failf("content of the item is %v, its parts were %v", item["content"], w.parts)
	}
	if text, call := callText(item); call && (text != w.sum || w.item["done"] == nil) {
		w.failf("arguments of the item are %v, its deltas were %v; done: %v", text, w.sum, w.item["done"])
	}
	w.items = append(w.items, e.data["item"])
	w.open = false
}

// checkInItem checks the events of an item between output_item.added and output_item.done.
func (w *eventChecker) checkInItem(e event) {
	at := shape{"item_id": exactly(w.item["id"]), "output_index": exactly(float64(len(w.items)))}
	_, call := callText(w.item)
	custom := w.item["type"] == "custom_tool_call"
	if !w.open || custom != strings.HasPrefix(e.name, "response.custom_tool_call_input.") ||
		(call && !custom) != strings.HasPrefix(e.name, "response.function_call_arguments.") {
		w.failf("%s in an item of type %v, open: %v", e.name, w.item["type"], w.open)
		return
	}
	if !call {
		at["content_index"] = exactly(float64(len(w.parts)))
	}
	kind, text := "text", "output_text"
	if w.part["type"] == "refusal" {
		kind, text = "refusal", "refusal"
	}
	switch e.name {
	case "response.content_part.added":
		at["part"] = anObject
		w.object(e.name, e.data, at)
		w.checker.part("part", e.data["part"])
		if w.part != nil {
			w.failf("a part is added while another is open")
		}
		w.part, _ = e.data["part"].(map[string]any)
		w.sum, w.logs = "", []any{}
		if text, _ := w.part["text"].(string); text != "" {
			w.failf("a part is added that is not empty")
		}
	case "response.content_part.done":
		at["part"] = anObject
		w.object(e.name, e.data, at)
		w.checker.part("part", e.data["part"])
		part, _ := e.data["part"].(map[string]any)
		if part[kind] != w.sum || part["type"] != w.part["type"] || w.part["done"] == nil {
			w.failf("part %v is done; it was %v, its deltas %q", part, w.part, w.sum)
		}
		w.part = nil
		w.parts = append(w.parts, e.data["part"])
	case "response." + text + ".delta", "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		at["delta"] = aString
		if text == "output_text" && !call {
			at["logprobs"] = anArray
			logs, _ := e.data["logprobs"].([]any)
			w.logs = append(w.logs, logs...)
		}
		w.object(e.name, e.data, at)
		delta, _ := e.data["delta"].(string)
		if delta == "" && !w.alive {
			w.failf("%s is empty", e.name)
		}
		w.sum += delta
		w.checkOpen(e.name, call)
	case "response." + text + ".done":
		at[kind] = exactly(w.sum)
		if text == "output_text" {
			at["logprobs"] = anArray
			if d := cmp.Diff(w.logs, e.data["logprobs"]); d != "" {
				w.failf("the log probabilities are not those of the deltas:\n%s", d)
			}
		}
		w.object(e.name, e.data, at)
		w.checkOpen(e.name, false)
		w.part["done"] = true
	case "response.custom_tool_call_input.done":
		at["input"] = exactly(w.sum)
		w.object(e.name, e.data, at)
		w.checkOpen(e.name, true)
		w.item["done"] = true
	case "response.function_call_arguments.done":
		at["arguments"], at["name"] = exactly(w.sum), exactly(w.item["name"])
		w.object(e.name, e.data, at)
		w.checkOpen(e.name, true)
		w.item["done"] = true
	default:
		w.failf("unknown event %s", e.name)
	}
}

// callText returns the arguments or the input in a tool call item.
func callText(item map[string]any) (text any, call bool) {
	switch item["type"] {
	case "function_call":
		return item["arguments"], true
	case "custom_tool_call":
		return item["input"], true
	}
	return nil, false
}

// checkOpen checks that a delta or done event belongs to an item or part that is open and not done.
func (w *eventChecker) checkOpen(name string, call bool) {
	if call && w.item["done"] != nil || !call && (w.part == nil || w.part["done"] != nil) {
		w.failf("%s of something that is not open", name)
		w.part = map[string]any{}
	}
}
