package chat

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"penstock/translate/apierr"
)

const (
	helloMessages = `"messages":[{"role":"user","content":"Hi"}]`
	leastBody     = `"model":"m",` + helloMessages
)

func bodyWith(s string) string { return `{` + leastBody + `,` + s + `}` }

func bodyOf(s string) string { return `{"model":"m","messages":[` + s + `]}` }

// partBody returns a body whose only message has one content part.
func partBody(s string) string { return bodyOf(`{"role":"user","content":[` + s + `]}`) }

func callBody(s string) string {
	return bodyOf(`{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[` + s + `]}`)
}

func toolBody(s string) string { return bodyWith(`"tools":[` + s + `]`) }

func functionBody(s string) string { return toolBody(`{"type":"function","function":{` + s + `}}`) }

// contractRows lists the contract's table rows and rules about chat. TestRequestRules must have an
// accepted and a rejected case for each of them, unless the contract accepts every value.
var contractRows = []string{
	"chat.model", "chat.messages", "chat.temperature", "chat.top_p", "chat.top_k", "chat.min_p", "chat.frequency_penalty",
	"chat.presence_penalty", "chat.repetition_penalty", "chat.max_tokens", "chat.max_completion_tokens", "chat.stop", "chat.seed",
	"chat.logit_bias", "chat.logprobs", "chat.top_logprobs", "chat.stream", "chat.stream_options", "chat.response_format", "chat.tools",
	"chat.tool_choice", "chat.reasoning", "chat.reasoning_effort", "chat.include_reasoning", "chat.user",
	"rule.token limits match",
	"message.role", "message.content", "message.name", "message.tool_call_id", "message.tool_calls",
	"part.type", "part.text", "part.image_url", "part.image_url.url", "part.image_url.detail", "part.image formats",
	"call.id", "call.type", "call.function", "call.function.name", "call.function.arguments",
	"tool.type", "tool.function", "tool.function.name", "tool.function.description", "tool.function.parameters", "tool.function.strict",
	"format.text", "format.json_object", "format.json_schema",
}

type ruleCase struct {
	row   string
	body  string
	code  string // empty if the body is accepted
	param string
}

const (
	badType  = apierr.CodeInvalidType
	badValue = apierr.CodeInvalidValue
	absent   = apierr.CodeMissingParameter
	dup      = apierr.CodeDuplicateMember
)

var ruleCases = []ruleCase{
	{"chat.model", `{` + leastBody + `}`, "", ""},
	{"chat.model", `{"model":"org\/m:tag",` + helloMessages + `}`, "", ""},
	{"chat.model", `{"model":"` + strings.Repeat("m", 256) + `",` + helloMessages + `}`, "", ""},
	{"chat.model", `{` + helloMessages + `}`, absent, "model"},
	{"chat.model", `{"model":null,` + helloMessages + `}`, absent, "model"},
	{"chat.model", `{"model":7,` + helloMessages + `}`, badType, "model"},
	{"chat.model", `{"model":["m"],` + helloMessages + `}`, badType, "model"},
	{"chat.model", `{"model":"",` + helloMessages + `}`, badValue, "model"},
	{"chat.model", `{"model":"m\u0000",` + helloMessages + `}`, badValue, "model"},
	{"chat.model", `{"model":"m\r\nX-Evil: 1",` + helloMessages + `}`, badValue, "model"},
	{"chat.model", `{"model":"m\u007f",` + helloMessages + `}`, badValue, "model"},
	{"chat.model", `{"model":"` + strings.Repeat("m", 257) + `",` + helloMessages + `}`, badValue, "model"},
	{"chat.model", `{"model":"a","model":"b",` + helloMessages + `}`, dup, "model"},
	{"chat.model", `{"model":"a","mod\u0065l":"b",` + helloMessages + `}`, dup, "model"},
	{"chat.model", `{"Model":"a","model":"b",` + helloMessages + `}`, dup, "model"},
	{"chat.model", `{"MODEL":"b",` + helloMessages + `}`, dup, "model"},

	{"chat.messages", bodyOf(`{"role":"user"}`), "", ""},
	{"chat.messages", `{"model":"m"}`, absent, "messages"},
	{"chat.messages", `{"model":"m","messages":null}`, absent, "messages"},
	{"chat.messages", `{"model":"m","messages":[]}`, badValue, "messages"},
	{"chat.messages", `{"model":"m","messages":"Hi"}`, badType, "messages"},
	{"chat.messages", `{"model":"m","messages":{}}`, badType, "messages"},
	{"chat.messages", bodyOf(`{"role":"user"},"Hi"`), badType, "messages[1]"},
	{"chat.messages", bodyOf(`null`), badType, "messages[0]"},
	{"chat.messages", `{"model":"m",` + helloMessages + `,` + helloMessages + `}`, dup, "messages"},

	{"chat.temperature", bodyWith(`"temperature":0`), "", ""},
	{"chat.temperature", bodyWith(`"temperature":2`), "", ""},
	{"chat.temperature", bodyWith(`"temperature":null`), "", ""},
	{"chat.temperature", bodyWith(`"temperature":2.0001`), badValue, "temperature"},
	{"chat.temperature", bodyWith(`"temperature":-0.1`), badValue, "temperature"},
	{"chat.temperature", bodyWith(`"temperature":1e999999`), badValue, "temperature"},
	{"chat.temperature", bodyWith(`"temperature":"1"`), badType, "temperature"},
	{"chat.temperature", bodyWith(`"temperature":true`), badType, "temperature"},
	{"chat.temperature", bodyWith(`"temperature":1,"temperature":2`), dup, "temperature"},
	{"chat.temperature", bodyWith(`"Temperature":1`), dup, "temperature"},
	{"chat.top_p", bodyWith(`"top_p":0`), "", ""},
	{"chat.top_p", bodyWith(`"top_p":1`), "", ""},
	{"chat.top_p", bodyWith(`"top_p":1.01`), badValue, "top_p"},
	{"chat.top_p", bodyWith(`"top_p":-0.01`), badValue, "top_p"},
	{"chat.top_p", bodyWith(`"top_p":[]`), badType, "top_p"},
	{"chat.top_k", bodyWith(`"top_k":0`), "", ""},
	{"chat.top_k", bodyWith(`"top_k":40.0`), "", ""},
	{"chat.top_k", bodyWith(`"top_k":4e1`), "", ""},
	{"chat.top_k", bodyWith(`"top_k":-1`), badValue, "top_k"},
	{"chat.top_k", bodyWith(`"top_k":1.5`), badValue, "top_k"},
	{"chat.top_k", bodyWith(`"top_k":1e400`), badValue, "top_k"},
	{"chat.top_k", bodyWith(`"top_k":"40"`), badType, "top_k"},
	{"chat.min_p", bodyWith(`"min_p":0`), "", ""},
	{"chat.min_p", bodyWith(`"min_p":1`), "", ""},
	{"chat.min_p", bodyWith(`"min_p":0.05,"frequency_penalty":-0.5,"presence_penalty":1.5`), "", ""},
	{"chat.min_p", bodyWith(`"min_p":-1`), badValue, "min_p"},
	{"chat.min_p", bodyWith(`"min_p":1.5`), badValue, "min_p"},
	{"chat.min_p", bodyWith(`"min_p":{}`), badType, "min_p"},
	{"chat.frequency_penalty", bodyWith(`"frequency_penalty":-2`), "", ""},
	{"chat.frequency_penalty", bodyWith(`"frequency_penalty":2`), "", ""},
	{"chat.frequency_penalty", bodyWith(`"frequency_penalty":-2.1`), badValue, "frequency_penalty"},
	{"chat.frequency_penalty", bodyWith(`"frequency_penalty":2.1`), badValue, "frequency_penalty"},
	{"chat.frequency_penalty", bodyWith(`"frequency_penalty":"0"`), badType, "frequency_penalty"},
	{"chat.presence_penalty", bodyWith(`"presence_penalty":-2`), "", ""},
	{"chat.presence_penalty", bodyWith(`"presence_penalty":2`), "", ""},
	{"chat.presence_penalty", bodyWith(`"presence_penalty":-3`), badValue, "presence_penalty"},
	{"chat.presence_penalty", bodyWith(`"presence_penalty":3`), badValue, "presence_penalty"},
	{"chat.presence_penalty", bodyWith(`"presence_penalty":false`), badType, "presence_penalty"},
	{"chat.repetition_penalty", bodyWith(`"repetition_penalty":0.1`), "", ""},
	{"chat.repetition_penalty", bodyWith(`"repetition_penalty":2`), "", ""},
	{"chat.repetition_penalty", bodyWith(`"repetition_penalty":0.09`), badValue, "repetition_penalty"},
	{"chat.repetition_penalty", bodyWith(`"repetition_penalty":2.01`), badValue, "repetition_penalty"},
	{"chat.repetition_penalty", bodyWith(`"repetition_penalty":"1"`), badType, "repetition_penalty"},

	{"chat.max_tokens", bodyWith(`"max_tokens":0`), "", ""},
	{"chat.max_tokens", bodyWith(`"max_tokens":128.0`), "", ""},
	{"chat.max_tokens", bodyWith(`"max_tokens":null`), "", ""},
	{"chat.max_tokens", bodyWith(`"max_tokens":-1`), badValue, "max_tokens"},
	{"chat.max_tokens", bodyWith(`"max_tokens":1.5`), badValue, "max_tokens"},
	{"chat.max_tokens", bodyWith(`"max_tokens":9223372036854775808`), badValue, "max_tokens"},
	{"chat.max_tokens", bodyWith(`"max_tokens":"128"`), badType, "max_tokens"},
	{"chat.max_tokens", bodyWith(`"max_tokens":1,"max_tokens":1`), dup, "max_tokens"},
	{"chat.max_completion_tokens", bodyWith(`"max_completion_tokens":0`), "", ""},
	{"chat.max_completion_tokens", bodyWith(`"max_completion_tokens":-5`), badValue, "max_completion_tokens"},
	{"chat.max_completion_tokens", bodyWith(`"max_completion_tokens":true`), badType, "max_completion_tokens"},
	{"rule.token limits match", bodyWith(`"max_tokens":5,"max_completion_tokens":5`), "", ""},
	{"rule.token limits match", bodyWith(`"max_completion_tokens":50,"max_tokens":5e1`), "", ""},
	{"rule.token limits match", bodyWith(`"max_tokens":null,"max_completion_tokens":5`), "", ""},
	{"rule.token limits match", bodyWith(`"max_tokens":5,"max_completion_tokens":6`), badValue, "max_completion_tokens"},
	{"rule.token limits match", bodyWith(`"max_completion_tokens":0,"max_tokens":1`), badValue, "max_completion_tokens"},
	{"rule.token limits match", bodyWith(`"max_tokens":0,"max_completion_tokens":1`), badValue, "max_completion_tokens"},

	{"chat.stop", bodyWith(`"stop":"END"`), "", ""},
	{"chat.stop", bodyWith(`"stop":["a","b","c","d","e","f"]`), "", ""},
	{"chat.stop", bodyWith(`"stop":[]`), "", ""},
	{"chat.stop", bodyWith(`"stop":null`), "", ""},
	{"chat.stop", bodyWith(`"stop":5`), badType, "stop"},
	{"chat.stop", bodyWith(`"stop":["a",5]`), badType, "stop[1]"},
	{"chat.stop", bodyWith(`"stop":[null]`), badType, "stop[0]"},
	{"chat.seed", bodyWith(`"seed":-9223372036854775808`), "", ""},
	{"chat.seed", bodyWith(`"seed":42.0`), "", ""},
	{"chat.seed", bodyWith(`"seed":1.5`), badValue, "seed"},
	{"chat.seed", bodyWith(`"seed":18446744073709551616`), badValue, "seed"},
	{"chat.seed", bodyWith(`"seed":"42"`), badType, "seed"},
	{"chat.logit_bias", bodyWith(`"logit_bias":{"50256":-100}`), "", ""},
	{"chat.logit_bias", bodyWith(`"logit_bias":null`), "", ""},
	{"chat.logit_bias", bodyWith(`"logit_bias":[]`), badType, "logit_bias"},
	{"chat.logprobs", bodyWith(`"logprobs":true`), "", ""},
	{"chat.logprobs", bodyWith(`"logprobs":5`), badType, "logprobs"},
	{"other", bodyWith(`"parallel_tool_calls":false`), "", ""},
	{"other", bodyWith(`"parallel_tool_calls":null`), "", ""},
	{"other", bodyWith(`"parallel_tool_calls":1`), badType, "parallel_tool_calls"},
	{"chat.top_logprobs", bodyWith(`"top_logprobs":0`), "", ""},
	{"chat.top_logprobs", bodyWith(`"top_logprobs":20`), "", ""},
	{"chat.top_logprobs", bodyWith(`"top_logprobs":-1`), badValue, "top_logprobs"},
	{"chat.top_logprobs", bodyWith(`"top_logprobs":1.1`), badValue, "top_logprobs"},
	{"chat.top_logprobs", bodyWith(`"top_logprobs":true`), badType, "top_logprobs"},

	{"chat.stream", bodyWith(`"stream":true`), "", ""},
	{"chat.stream", bodyWith(`"stream":false`), "", ""},
	{"chat.stream", bodyWith(`"stream":"true"`), badType, "stream"},
	{"chat.stream", bodyWith(`"stream":1`), badType, "stream"},
	{"chat.stream", bodyWith(`"stream":true,"STREAM":false`), dup, "stream"},
	{"chat.stream_options", bodyWith(`"stream":true,"stream_options":{"include_usage":true,"other":1}`), "", ""},
	{"chat.stream_options", bodyWith(`"stream_options":{}`), "", ""},
	{"chat.stream_options", bodyWith(`"stream_options":null`), "", ""},
	{"chat.stream_options", bodyWith(`"stream_options":true`), badType, "stream_options"},
	{"chat.stream_options", bodyWith(`"stream_options":{"include_usage":1}`), badType, "stream_options.include_usage"},
	{"chat.stream_options", bodyWith(`"stream_options":{"continuous_usage_stats":"x"}`), badType, "stream_options.continuous_usage_stats"},
	{"chat.stream_options", bodyWith(`"stream_options":{"include_usage":true,"Include_Usage":false}`), dup, "stream_options.include_usage"},

	{"chat.response_format", bodyWith(`"response_format":{"type":"text"}`), "", ""},
	{"chat.response_format", bodyWith(`"response_format":"text"`), badType, "response_format"},
	{"chat.response_format", bodyWith(`"response_format":{}`), absent, "response_format.type"},
	{"chat.response_format", bodyWith(`"response_format":{"type":"xml"}`), badValue, "response_format.type"},
	{"chat.response_format", bodyWith(`"response_format":{"type":1}`), badType, "response_format.type"},
	{"chat.response_format", bodyWith(`"response_format":{"type":"text","type":"json_object"}`), dup, "response_format.type"},
	{"format.text", bodyWith(`"response_format":{"type":"text","json_schema":5}`), "", ""},
	{"format.json_object", bodyWith(`"response_format":{"type":"json_object"}`), "", ""},
	{"format.json_schema", bodyWith(`"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`), "", ""},
	{"format.json_schema", bodyWith(`"response_format":{"type":"json_schema"}`), absent, "response_format.json_schema"},
	{"format.json_schema", bodyWith(`"response_format":{"type":"json_schema","json_schema":null}`), absent, "response_format.json_schema"},
	{"format.json_schema", bodyWith(`"response_format":{"type":"json_schema","json_schema":"x"}`), badType, "response_format.json_schema"},

	{"chat.tools", functionBody(`"name":"f"`), "", ""},
	{"chat.tools", bodyWith(`"tools":[]`), "", ""},
	{"chat.tools", bodyWith(`"tools":{}`), badType, "tools"},
	{"chat.tools", toolBody(`"f"`), badType, "tools[0]"},
	{"tool.type", functionBody(`"name":"f"`), "", ""},
	{"tool.type", toolBody(`{"function":{"name":"f"}}`), absent, "tools[0].type"},
	{"tool.type", toolBody(`{"type":"web_search"}`), badValue, "tools[0].type"},
	{"tool.type", toolBody(`{"type":1,"function":{"name":"f"}}`), badType, "tools[0].type"},
	{"tool.type", toolBody(`{"type":"function","Type":"x","function":{"name":"f"}}`), dup, "tools[0].type"},
	{"tool.function", functionBody(`"name":"f","x":1`), "", ""},
	{"tool.function", toolBody(`{"type":"function"}`), absent, "tools[0].function"},
	{"tool.function", toolBody(`{"type":"function","function":"f"}`), badType, "tools[0].function"},
	{"tool.function.name", functionBody(`"name":"` + strings.Repeat("n", 256) + `"`), "", ""},
	{"tool.function.name", functionBody(`"name":"` + strings.Repeat(`\u006e`, 256) + `"`), "", ""},
	{"tool.function.name", functionBody(`"x":1`), absent, "tools[0].function.name"},
	{"tool.function.name", functionBody(`"name":""`), badValue, "tools[0].function.name"},
	{"tool.function.name", functionBody(`"name":"` + strings.Repeat("n", 257) + `"`), badValue, "tools[0].function.name"},
	{"tool.function.name", functionBody(`"name":1`), badType, "tools[0].function.name"},
	{"tool.function.name", functionBody(`"name":"f","name":"g"`), dup, "tools[0].function.name"},
	{"tool.function.description", functionBody(`"name":"f","description":"d"`), "", ""},
	{"tool.function.description", functionBody(`"name":"f","description":null`), "", ""},
	{"tool.function.description", functionBody(`"name":"f","description":[]`), badType, "tools[0].function.description"},
	{"tool.function.parameters", functionBody(`"name":"f","parameters":{"type":"object","properties":{}}`), "", ""},
	{"tool.function.parameters", functionBody(`"name":"f","parameters":null`), "", ""},
	{"tool.function.parameters", functionBody(`"name":"f","parameters":"{}"`), badType, "tools[0].function.parameters"},
	{"tool.function.strict", functionBody(`"name":"f","strict":true`), "", ""},
	{"tool.function.strict", functionBody(`"name":"f","strict":null`), "", ""},
	{"tool.function.strict", functionBody(`"name":"f","strict":"yes"`), badType, "tools[0].function.strict"},

	{"chat.tool_choice", bodyWith(`"tool_choice":"auto"`), "", ""},
	{"chat.tool_choice", bodyWith(`"tool_choice":"none"`), "", ""},
	{"chat.tool_choice", bodyWith(`"tool_choice":"required"`), "", ""},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function","function":{"name":"f"}}`), "", ""},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`), "", ""},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"f"}}]}}`), "", ""},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":null,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]}}`), "", ""},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools"}`), absent, "tool_choice.allowed_tools"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":[]}`), badType, "tool_choice.allowed_tools"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}`), absent, "tool_choice.allowed_tools.tools"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`), badValue, "tool_choice.allowed_tools.tools"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"any","tools":[{"type":"function","function":{"name":"f"}}]}}`), badValue, "tool_choice.allowed_tools.mode"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":["f"]}}`), badType, "tool_choice.allowed_tools.tools[0]"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}}`), badValue, "tool_choice.allowed_tools.tools[1].function.name"},
	{"chat.tool_choice", bodyWith(`"tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[{"type":"function","function":{"name":"f"}}],"tools":[]}}`), dup, "tool_choice.allowed_tools.tools"},
	{"chat.tool_choice", bodyWith(`"tool_choice":"some"`), badValue, "tool_choice"},
	{"chat.tool_choice", bodyWith(`"tool_choice":true`), badType, "tool_choice"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{}`), absent, "tool_choice.type"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function","type":"function"}`), dup, "tool_choice.type"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"custom"}`), badValue, "tool_choice.type"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function"}`), absent, "tool_choice.function"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function","function":{}}`), absent, "tool_choice.function.name"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function","function":{"name":1}}`), badType, "tool_choice.function.name"},
	{"chat.tool_choice", bodyWith(`"tool_choice":{"type":"function","function":{"name":"f","name":"g"}}`), dup, "tool_choice.function.name"},

	{"chat.reasoning", bodyWith(`"reasoning":{"effort":"high","max_tokens":100,"summary":"auto","x":1}`), "", ""},
	{"chat.reasoning", bodyWith(`"reasoning":{}`), "", ""},
	{"chat.reasoning", bodyWith(`"reasoning":null`), "", ""},
	{"chat.reasoning", bodyWith(`"reasoning":{"effort":null,"enabled":false}`), "", ""},
	{"chat.reasoning", bodyWith(`"reasoning":"high"`), badType, "reasoning"},
	{"chat.reasoning", bodyWith(`"reasoning":{"effort":"huge"}`), "", ""},
	{"chat.reasoning", bodyWith(`"reasoning":{"effort":3}`), badType, "reasoning.effort"},
	{"chat.reasoning", bodyWith(`"reasoning":{"max_tokens":-1}`), badValue, "reasoning.max_tokens"},
	{"chat.reasoning", bodyWith(`"reasoning":{"max_tokens":"1"}`), badType, "reasoning.max_tokens"},
	{"chat.reasoning", bodyWith(`"reasoning":{"enabled":1}`), badType, "reasoning.enabled"},
	{"chat.reasoning", bodyWith(`"reasoning":{"exclude":"yes"}`), badType, "reasoning.exclude"},
	{"chat.reasoning", bodyWith(`"reasoning":{"effort":"low","Effort":"high"}`), dup, "reasoning.effort"},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"none"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"minimal"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"xhigh"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"max"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"max","reasoning":{"effort":"xhigh"}`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"maximum"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"l\u006fw"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"high","reasoning":{"effort":"high"}`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"minimal","reasoning":{"effort":"low"}`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"high","reasoning":{"effort":"low"}`), badValue, "reasoning_effort"},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":"HIGH"`), "", ""},
	{"chat.reasoning_effort", bodyWith(`"reasoning_effort":5`), badType, "reasoning_effort"},
	{"chat.include_reasoning", bodyWith(`"include_reasoning":false`), "", ""},
	{"chat.include_reasoning", bodyWith(`"include_reasoning":"no"`), badType, "include_reasoning"},
	{"chat.user", bodyWith(`"user":"u-1"`), "", ""},
	{"chat.user", bodyWith(`"user":7`), badType, "user"},

	{"message.role", bodyOf(`{"role":"system"},{"role":"developer"},{"role":"user"},{"role":"assistant"},{"role":"tool"}`), "", ""},
	{"message.role", bodyOf(`{"role":"us\u0065r"}`), "", ""},
	{"message.role", bodyOf(`{"content":"Hi"}`), absent, "messages[0].role"},
	{"message.role", bodyOf(`{"role":"wizard"}`), badValue, "messages[0].role"},
	{"message.role", bodyOf(`{"role":"User"}`), badValue, "messages[0].role"},
	{"message.role", bodyOf(`{"role":["user"]}`), badType, "messages[0].role"},
	{"message.role", bodyOf(`{"role":"user"},{"role":"user","role":"system"}`), dup, "messages[1].role"},
	{"message.role", bodyOf(`{"role":"user","ROLE":"system"}`), dup, "messages[0].role"},
	{"message.content", bodyOf(`{"role":"assistant","content":null}`), "", ""},
	{"message.content", bodyOf(`{"role":"user","content":[]}`), "", ""},
	{"message.content", bodyOf(`{"role":"user","content":""}`), "", ""},
	{"message.content", bodyOf(`{"role":"user","content":5}`), badType, "messages[0].content"},
	{"message.content", bodyOf(`{"role":"user","content":{"type":"text"}}`), badType, "messages[0].content"},
	{"message.content", bodyOf(`{"role":"user","content":["Hi"]}`), badType, "messages[0].content[0]"},
	{"message.content", bodyOf(`{"role":"user","content":"a","content":"b"}`), dup, "messages[0].content"},
	{"message.name", bodyOf(`{"role":"user","name":"ann","content":"Hi"}`), "", ""},
	{"message.name", bodyOf(`{"role":"user","name":null}`), "", ""},
	{"message.name", bodyOf(`{"role":"user","name":1}`), badType, "messages[0].name"},
	{"message.tool_call_id", bodyOf(`{"role":"tool","tool_call_id":"c1","content":"42"}`), "", ""},
	{"message.tool_call_id", bodyOf(`{"role":"tool","tool_call_id":1}`), badType, "messages[0].tool_call_id"},
	{"message.tool_calls", bodyOf(`{"role":"assistant","tool_calls":[]}`), "", ""},
	{"message.tool_calls", bodyOf(`{"role":"assistant","tool_calls":null}`), "", ""},
	{"message.tool_calls", bodyOf(`{"role":"assistant","tool_calls":{}}`), badType, "messages[0].tool_calls"},
	{"message.tool_calls", callBody(`5`), badType, "messages[1].tool_calls[0]"},

	{"part.type", partBody(`{"type":"text","text":"a","role":"user","tool_calls":[],"annotations":[]}`), "", ""},
	{"part.type", partBody(`{"text":"a"}`), absent, "messages[0].content[0].type"},
	{"part.type", partBody(`{"type":"input_audio","input_audio":{}}`), absent, "messages[0].content[0].input_audio.data"},
	{"part.type", partBody(`{"type":"image_embeds","image_embeds":"aGk="}`), badValue, "messages[0].content[0].type"},
	{"part.type", partBody(`{"type":"text","text":"a","image_url":"http://10.0.0.1/x"}`), badValue, "messages[0].content[0].image_url"},
	{"part.type", partBody(`{"type":"text","text":"a","image_url":null,"video_url":null}`), "", ""},
	{"part.type", partBody(`{"type":"text","text":"a","uuid":"u","video_url":{"url":"http://10.0.0.1/x"}}`), badValue, "messages[0].content[0].video_url"},
	{"part.type", partBody(`{"type":"image_url","image_url":{"url":"https://example.com/x.png"},"audio_url":"http://10.0.0.1/x"}`), badValue, "messages[0].content[0].audio_url"},
	{"part.type", partBody(`{"type":"text","text":"a"},{"type":5}`), badType, "messages[0].content[1].type"},
	{"part.type", partBody(`{"type":"text","type":"image_url","text":"a"}`), dup, "messages[0].content[0].type"},
	{"part.text", partBody(`{"type":"text","text":""}`), "", ""},
	{"part.text", partBody(`{"type":"text"}`), absent, "messages[0].content[0].text"},
	{"part.text", partBody(`{"type":"text","text":null}`), absent, "messages[0].content[0].text"},
	{"part.text", partBody(`{"type":"text","text":["a"]}`), badType, "messages[0].content[0].text"},
	{"part.image_url", partBody(`{"type":"image_url","image_url":"https://example.com/a.png"}`), "", ""},
	{"part.image_url", partBody(`{"type":"image_url"}`), absent, "messages[0].content[0].image_url"},
	{"part.image_url", partBody(`{"type":"image_url","image_url":5}`), badType, "messages[0].content[0].image_url"},
	{"part.image_url", partBody(`{"type":"image_url","image_url":"http://example.com/a.png"}`), badValue, "messages[0].content[0].image_url"},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{"url":"https:\/\/example.com\/a.png","x":1}}`), "", ""},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{}}`), absent, "messages[0].content[0].image_url.url"},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{"url":null}}`), absent, "messages[0].content[0].image_url.url"},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{"url":["a"]}}`), badType, "messages[0].content[0].image_url.url"},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`), badValue, "messages[0].content[0].image_url.url"},
	{"part.image_url.url", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","URL":"https://b.com"}}`), dup, "messages[0].content[0].image_url.url"},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":"auto"}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":"low"}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":"high"}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":null}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":"original"}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":"max"}}`), "", ""},
	{"part.image_url.detail", partBody(`{"type":"image_url","image_url":{"url":"https://a.com","detail":1}}`), badType, "messages[0].content[0].image_url.detail"},
	{"part.image formats", partBody(`{"type":"image_url","image_url":"` + webpURL + `"}`), "", ""},
	{"part.image formats", partBody(`{"type":"image_url","image_url":"data:image/gif;base64,R0lGODlhAQABAAAAACw="}`), badValue, "messages[0].content[0].image_url"},

	{"call.id", callBody(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}`), "", ""},
	{"call.id", callBody(`{"type":"function","function":{"name":"f","arguments":"{}"}}`), absent, "messages[1].tool_calls[0].id"},
	{"call.id", callBody(`{"id":1,"type":"function","function":{"name":"f","arguments":"{}"}}`), badType, "messages[1].tool_calls[0].id"},
	{"call.id", callBody(`{"id":"a","id":"b","type":"function","function":{"name":"f","arguments":"{}"}}`), dup, "messages[1].tool_calls[0].id"},
	{"call.type", callBody(`{"id":"c1","index":0,"type":"function","function":{"name":"f","arguments":""}}`), "", ""},
	{"call.type", callBody(`{"id":"c1","function":{"name":"f","arguments":"{}"}}`), absent, "messages[1].tool_calls[0].type"},
	{"call.type", callBody(`{"id":"c1","type":"custom","function":{"name":"f","arguments":"{}"}}`), badValue, "messages[1].tool_calls[0].type"},
	{"call.function", callBody(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{}","x":1}}`), "", ""},
	{"call.function", callBody(`{"id":"c1","type":"function"}`), absent, "messages[1].tool_calls[0].function"},
	{"call.function", callBody(`{"id":"c1","type":"function","function":[]}`), badType, "messages[1].tool_calls[0].function"},
	{"call.function.name", callBody(`{"id":"c1","type":"function","function":{"name":"","arguments":"{}"}}`), "", ""},
	{"call.function.name", callBody(`{"id":"c1","type":"function","function":{"arguments":"{}"}}`), absent, "messages[1].tool_calls[0].function.name"},
	{"call.function.name", callBody(`{"id":"c1","type":"function","function":{"name":1,"arguments":"{}"}}`), badType, "messages[1].tool_calls[0].function.name"},
	{"call.function.arguments", callBody(`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}`), "", ""},
	{"call.function.arguments", callBody(`{"id":"c1","type":"function","function":{"name":"f"}}`), absent, "messages[1].tool_calls[0].function.arguments"},
	{"call.function.arguments", callBody(`{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":1}}}`), badType, "messages[1].tool_calls[0].function.arguments"},
	{"call.function.arguments", callBody(`{"id":"c1","type":"function","function":{"name":"f","arguments":"","arguments":""}}`), dup, "messages[1].tool_calls[0].function.arguments"},

	// n is not in the contract. The edge reads n because the answer has n choices. Other unknown
	// members are passed on.
	{"other", bodyWith(`"n":2`), "", ""},
	{"other", bodyWith(`"n":0`), badValue, "n"},
	{"other", bodyWith(`"n":128`), "", ""},
	{"other", bodyWith(`"n":129`), badValue, "n"},
	{"other", bodyWith(`"n":"2"`), badType, "n"},
	{"other", bodyWith(`"n_cmpl":2,"n":2.0`), "", ""},
	{"other", bodyWith(`"n_cmpl":2,"n":1`), badValue, "n_cmpl"},
	{"other", bodyWith(`"n_cmpl":129`), badValue, "n_cmpl"},
	{"other", bodyWith(`"n_cmpl":0`), badValue, "n_cmpl"},
	{"other", bodyWith(`"n_cmpl":"2"`), badType, "n_cmpl"},
	{"other", bodyWith(`"service_tier":5,"service_tier":6,"metadata":{"a":{}},"store":true,"é":1,"parallel_tool_calls":false`), "", ""},
	{"other", `[]`, badType, ""},
	{"other", `"x"`, badType, ""},
}

func TestRequestRules(t *testing.T) {
	var r Request
	for _, c := range ruleCases {
		err := r.Decode([]byte(c.body))
		if c.code == "" {
			if err != nil {
				t.Errorf("%s: %s\nwas refused: %v", c.row, c.body, err)
			}
			continue
		}
		e := requireInvalid(t, c.body, err)
		if e.Code != c.code || e.Param != c.param {
			t.Errorf("%s: %s\ngot code %s, param %q; want %s, %q (%s)", c.row, c.body, e.Code, e.Param, c.code, c.param, e.Message)
		}
		if e.Param != "" && !strings.HasPrefix(e.Message, e.Param+" ") {
			t.Errorf("%s: the message does not begin with the path: %s", c.row, e.Message)
		}
	}
}

func requireInvalid(t *testing.T, body string, err error) *apierr.Error {
	t.Helper()
	var e *apierr.Error
	if !errors.As(err, &e) {
		t.Fatalf("%.200s: got %v, want an *apierr.Error", body, err)
	}
	if e.Status != 400 || e.Type != apierr.TypeInvalidRequest || e.Code == "" || !strings.HasSuffix(e.Message, ".") {
		t.Fatalf("%.200s: got %+v, want a 400 with a code and a sentence", body, e)
	}
	return e
}

// TestRequestCaseVariant checks that the error for a member in another case has the right spelling.
func TestRequestCaseVariant(t *testing.T) {
	for body, want := range map[string]string{
		`{"Model":"m",` + helloMessages + `}`:                      "model is spelt in another case: spell it `model`.",
		`{"model":"m","messages":[{"Role":"user","content":"a"}]}`: "messages[0].role is spelt in another case: spell it `role`.",
		`{"model":"a","model":"b",` + helloMessages + `}`:          "model is given twice.",
	} {
		var e *apierr.Error
		if err := new(Request).Decode([]byte(body)); !errors.As(err, &e) || e.Code != dup || e.Message != want {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

func TestRequestRulesCoverContract(t *testing.T) {
	nothingToRefuse := []string{"format.text", "format.json_object"}
	accepted, refused := map[string]bool{}, map[string]bool{}
	for _, c := range ruleCases {
		if c.row != "other" && !slices.Contains(contractRows, c.row) {
			t.Errorf("%q is not a row of the contract", c.row)
		}
		if c.code == "" {
			accepted[c.row] = true
		} else {
			refused[c.row] = true
		}
	}
	for _, row := range contractRows {
		if !accepted[row] {
			t.Errorf("no case of %s is accepted", row)
		}
		if !refused[row] && !slices.Contains(nothingToRefuse, row) {
			t.Errorf("no case of %s is refused", row)
		}
		if name, ok := strings.CutPrefix(row, "chat."); ok && !slices.Contains(memberNames, name) {
			t.Errorf("%s is never read", name)
		}
	}
}

// TestRequestNotJSON checks the rows of the fault matrix about bodies that are not JSON or are more
// than one JSON value.
func TestRequestNotJSON(t *testing.T) {
	cases := map[string]struct{ body, code string }{
		"empty":             {"", apierr.CodeInvalidJSON},
		"blank":             {" \n", apierr.CodeInvalidJSON},
		"cut":               {`{` + leastBody, apierr.CodeInvalidJSON},
		"trailing":          {`{` + leastBody + `}x`, apierr.CodeInvalidJSON},
		"two":               {`{` + leastBody + `}{}`, apierr.CodeInvalidJSON},
		"NaN":               {bodyWith(`"temperature":NaN`), apierr.CodeInvalidJSON},
		"BOM":               {"\ufeff{" + leastBody + `}`, apierr.CodeInvalidJSON},
		"UTF-16":            {"\xff\xfe{\x00}\x00", apierr.CodeInvalidJSON},
		"comment":           {`{/* */` + leastBody + `}`, apierr.CodeInvalidJSON},
		"control character": {bodyWith("\"x\":\"a\nb\""), apierr.CodeInvalidJSON},
		"invalid UTF-8":     {bodyWith("\"x\":\"\xc3\x28\""), apierr.CodeInvalidJSON},
		"trailing comma":    {`{` + leastBody + `,}`, apierr.CodeInvalidJSON},
		"single quotes":     {`{'model':'m'}`, apierr.CodeInvalidJSON},
		"depth":             {bodyWith(`"x":` + strings.Repeat("[", 100_000)), apierr.CodeJSONLimit},
		"members":           {bodyWith(`"x":{` + strings.Repeat(`"k":0,`, 100_000) + `"k":0}`), apierr.CodeJSONLimit},
		"messages":          {bodyOf(strings.Repeat(`{"role":"user"},`, 1_000_000) + `{"role":"user"}`), apierr.CodeJSONLimit},
		"number":            {bodyWith(`"temperature":` + strings.Repeat("9", 1_000_000)), apierr.CodeInvalidValue},
		"seed":              {bodyWith(`"seed":1` + strings.Repeat("0", 1_000_000)), apierr.CodeInvalidValue},
		"exponent":          {bodyWith(`"max_tokens":1e` + strings.Repeat("9", 1_000_000)), apierr.CodeInvalidValue},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var r Request
			if e := requireInvalid(t, c.body, r.Decode([]byte(c.body))); e.Code != c.code {
				t.Errorf("got code %s, want %s: %s", e.Code, c.code, e.Message)
			}
		})
	}
}

// TestRequestErrorsQuoteNothing checks that errors never quote a request. It puts a canary wherever
// a client can put text, and searches the errors for it.
func TestRequestErrorsQuoteNothing(t *testing.T) {
	const canary = "cAnArY"
	bodies := []string{
		canary, `"` + canary, `{"` + canary + `":` + canary + `}`, `{"` + canary + `":1}`,
		`{"model":{"` + canary + `":1},` + helloMessages + `}`, `{"model":"` + canary + `\n",` + helloMessages + `}`,
		bodyOf(`{"role":"` + canary + `"}`), partBody(`{"type":"` + canary + `"}`), toolBody(`{"type":"` + canary + `"}`),
		callBody(`{"id":"` + canary + `","type":"` + canary + `"}`), bodyWith(`"tool_choice":"` + canary + `"`),
		bodyWith(`"response_format":{"type":"` + canary + `"}`),
		partBody(`{"type":"image_url","image_url":"` + canary + `"}`), partBody(`{"type":"image_url","image_url":"https://` + canary + `:x/"}`),

		bodyWith(`"x-` + canary + `":1`), bodyWith(`"bootstrap_` + canary + `":1`), bodyWith(`"stop":[{"` + canary + `":1}]`),
	}
	var r Request
	for _, body := range bodies {
		err := r.Decode([]byte(body))
		if err == nil {
			err = r.CheckRules(&ModelRules{Refuse: NewRefusedMembers("bootstrap_*")})
		}
		if e := requireInvalid(t, body, err); strings.Contains(strings.ToLower(e.Error()+e.Param+e.Message), strings.ToLower(canary)) {
			t.Errorf("%s: the error quotes it: %v", body, e)
		}
	}
}
