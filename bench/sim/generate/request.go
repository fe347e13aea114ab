package generate

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/fault"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
)

// Request contains the values that the simulator reads from a text generation request. It contains
// no references to the body.
type Request struct {
	Model  string
	Stream bool
	Usage  struct{ Last, Each bool } // stream_options.include_usage and continuous_usage_stats
	N      int
	Max    int // maximum number of tokens to generate; -1 if not set
	Prompt scheduler.Prompt
	Calls  []profile.ToolCall

	Logprobs         bool
	Tops             int
	ExcludeReasoning bool // include_reasoning is false

	minimum         int
	ignoreEnd       bool
	stop            []string
	seed            uint64
	reasoning       int  // number of reasoning tokens
	afterToolResult bool // the last message is a tool result
	namesTool       bool // tool_choice names a tool
	fixed           string
	hasFixed        bool // fixed replaces the text of the generator
	memory          modelMemory
}

// modelMemory contains the model's thoughts and the facts that the model finds in the history.
type modelMemory struct {
	partialAnswer string          // start of the response, taken from a final assistant message
	sum           uint64          // hash of the prompt without partialAnswer
	toolUsed      bool            // the history contains a tool result
	secret        string          // the number found in the reasoning in the history
	thoughts      []textgen.Token // thoughts that replace generated thoughts
}

// Decoder decodes requests like one particular engine.
type Decoder struct {
	Profile        *profile.Profile
	Faults         *fault.Effects
	Controls       *Controls
	Seed           uint64
	StrictSystem   bool // refuse a system message that is not the first message
	AlternateRoles bool // refuse consecutive messages of the same role
	// reasoning_effort values that the model's template accepts; if empty, any value
	Efforts    []string
	Priorities bool // the queue is ordered by priority
	Served     func(asked string) (name string, ok bool)
	NextID     func() uint64
}

// ParseBody checks and parses a body strictly. The value is valid until the parser is returned to
// its pool.
func ParseBody(p *fastjson.Parser, body []byte) (*fastjson.Value, *profile.APIError) {
	if !utf8.Valid(body) {
		return nil, &profile.APIError{Status: 400, Message: "There was an error parsing the body: not UTF-8", Unread: true}
	}
	err := fastjson.ValidateBytes(body)
	var v *fastjson.Value
	if err == nil {
		v, err = p.ParseBytes(body)
	}
	if err != nil {
		return nil, &profile.APIError{Status: 400, Message: "JSON decode error: expecting a value", Unread: true}
	}
	if v.Type() != fastjson.TypeObject {
		return nil, &profile.APIError{Status: 400, Message: "Input should be a valid object"}
	}
	return v, nil
}

// DecodeChat decodes a chat completions body and checks it as strictly as real engines do.
func (d *Decoder) DecodeChat(v *fastjson.Value, q *Request) *profile.APIError {
	if err := d.DecodeCommon(v, q); err != nil {
		return err
	}
	messages := v.Get("messages")
	if messages == nil || messages.Type() != fastjson.TypeArray {
		return profile.InvalidParam("messages", "'messages' is required")
	}
	list := messages.GetArray()
	if len(list) == 0 && d.Profile.Family != "llamacpp" { // llama.cpp's template accepts an empty list
		return profile.InvalidParam("messages", "'messages' must not be empty")
	}
	if err := d.checkEffort(v); err != nil {
		return err
	}
	if err := d.refuseByTemplate(v); err != nil {
		return err
	}
	tools, err := d.checkTools(v)
	if err != nil {
		return err
	}
	for _, t := range tools {
		var scratch [1024]byte
		q.Prompt.Add(t.MarshalTo(scratch[:0]))
	}
	lastUser := ""
	for i, m := range list {
		if q.memory.sum = q.Prompt.FullHash(); i > 0 && i == len(list)-1 && string(m.GetStringBytes("role")) == "assistant" {
			q.memory.partialAnswer = string(m.GetStringBytes("content"))
		}
		text, err := d.AddMessage(q, i, m)
		if err != nil {
			return err
		}
		if text != "" {
			lastUser = text
		}
	}
	if wanted := markedControls(lastUser); wanted != "" {
		if err := d.Controls.parseBody([]byte(wanted)); err != nil {
			return profile.InvalidParam("messages", "sim: %s", err)
		}
	}
	q.afterToolResult = len(list) > 0 && string(list[len(list)-1].GetStringBytes("role")) == "tool"
	if d.Controls.Echo {
		q.fixed, q.hasFixed = lastUser, true
	}
	if d.Controls.Secret && q.memory.toolUsed {
		q.fixed, q.hasFixed = "I have forgotten the number.", true
		if q.memory.secret != "" {
			q.fixed = secretSentencePrefix + q.memory.secret + "."
		}
	}
	if err := d.chooseTool(v, q, tools); err != nil {
		return err
	}
	if err := d.decodeResponseFormat(v, q); err != nil {
		return err
	}
	d.decodeReasoning(v, q)
	if d.Controls.Secret && !q.memory.toolUsed && d.Profile.Reasoning != "" {
		number := strconv.FormatUint(100_000+textgen.MixHash(d.Seed, d.NextID())%900_000, 10)
		q.memory.thoughts = textgen.Fragments(secretSentencePrefix+number+".", 4)
		q.reasoning = len(q.memory.thoughts)
	}
	return nil
}

// secretSentencePrefix is the start of the sentence that contains the secret number.
const secretSentencePrefix = "The number is "

// addReasoning adds the reasoning of an earlier turn to the prompt, as chat templates do.
func (q *Request) addReasoning(text []byte) {
	q.Prompt.Add(text)
	if _, rest, ok := strings.Cut(string(text), secretSentencePrefix); ok {
		q.memory.secret, _, _ = strings.Cut(rest, ".")
	}
}

// DecodeCommon decodes the members common to all text endpoints.
func (d *Decoder) DecodeCommon(v *fastjson.Value, q *Request) *profile.APIError {
	*q = Request{N: 1, Max: -1, Prompt: scheduler.Prompt{Blocks: q.Prompt.Blocks}}
	q.Prompt.Reset(d.Seed)
	if salt := v.Get("cache_salt"); salt != nil && d.Profile.MatchesAny("vllm sglang trtllm openai") {
		s := salt.GetStringBytes()
		if len(s) == 0 && salt.Type() != fastjson.TypeNull {
			return profile.InvalidParam("cache_salt", "cache_salt: should be a string of at least one character")
		}
		if len(s) > 0 {
			q.Prompt.Salt = textgen.MixHash(textgen.Hash(0, s), 1)
		}
	}
	if err := d.decodePriority(v, q); err != nil {
		return err
	}
	if s := v.Get("sim"); s != nil {
		if err := d.Controls.parseBody(s.MarshalTo(nil)); err != nil {
			return profile.InvalidParam("sim", "sim: %s", err)
		}
	}
	if err := q.decodeModel(d, v); err != nil {
		return err
	}
	if err := q.decodeSwitches(v); err != nil {
		return err
	}
	if err := q.decodeUsage(d.Profile, v); err != nil {
		return err
	}
	if err := q.decodeNumbers(d.Profile, v); err != nil {
		return err
	}
	if q.N > 128 {
		return profile.InvalidParam("n", "n must be at most 128, got %d.", q.N)
	}
	if d.Profile.OneChoice {
		q.N = 1
	}
	if s := v.Get("seed"); s != nil && s.Type() == fastjson.TypeNumber {
		q.seed = uint64(int64(s.GetFloat64()))
	}
	return decodeStop(v, q)
}

func (q *Request) decodeModel(d *Decoder, v *fastjson.Value) *profile.APIError {
	m := v.Get("model")
	switch {
	case m == nil && d.Profile.Unknown != profile.UnknownModelRefused:
	case m == nil && d.Profile.Name == "llamacpp-router":
		return &profile.APIError{Status: 400, Message: "model name is missing from the request"}
	case m == nil:
		return profile.InvalidParam("model", "model is required")
	case m.Type() != fastjson.TypeString:
		return profile.InvalidParam("model", "Input should be a valid string: model")
	}
	asked := string(m.GetStringBytes())
	name, ok := d.Served(asked)
	if !ok {
		err := d.Profile.UnknownModelError(asked)
		return &err
	}
	q.Model = name
	return nil
}

func (q *Request) decodeSwitches(v *fastjson.Value) *profile.APIError {
	for _, f := range []struct {
		name string
		to   *bool
	}{{"stream", &q.Stream}, {"ignore_eos", &q.ignoreEnd}, {"logprobs", &q.Logprobs}} {
		b := v.Get(f.name)
		switch {
		case b == nil || b.Type() == fastjson.TypeNull:
		case b.Type() == fastjson.TypeTrue:
			*f.to = true
		case b.Type() == fastjson.TypeFalse:
		case f.name == "logprobs" && b.Type() == fastjson.TypeNumber:
			*f.to, q.Tops = true, b.GetInt()
		default:
			return profile.InvalidParam(f.name, "Input should be a valid boolean: %s", f.name)
		}
	}
	return nil
}

func (q *Request) decodeUsage(p *profile.Profile, v *fastjson.Value) *profile.APIError {
	q.Usage.Last = v.GetBool("stream_options", "include_usage")
	q.Usage.Each = v.GetBool("stream_options", "continuous_usage_stats")
	if so := v.Get("stream_options"); so != nil && so.Type() != fastjson.TypeNull && !q.Stream &&
		(p.Family == "vllm" || p.Family == "openai") {
		return profile.InvalidParam("stream_options", "Stream options can only be defined when `stream=True`.")
	}
	return nil
}

func (q *Request) decodeNumbers(p *profile.Profile, v *fastjson.Value) *profile.APIError {
	for _, f := range []struct {
		name     string
		min, max float64
	}{{"temperature", 0, 100}, {"top_p", 0, 1}, {"presence_penalty", -2, 2}, {"frequency_penalty", -2, 2}} {
		if err := checkRange(v, f.name, f.min, f.max); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name string
		to   *int
		min  int
	}{
		{"max_tokens", &q.Max, -1},
		{"max_completion_tokens", &q.Max, -1},
		{"min_tokens", &q.minimum, 0},
		{"n", &q.N, 1},
		{"top_logprobs", &q.Tops, 0},
	} {
		i := v.Get(f.name)
		if i == nil || i.Type() == fastjson.TypeNull {
			continue
		}
		n, err := i.Int()
		if err != nil {
			return profile.InvalidParam(f.name, "Input should be a valid integer: %s", f.name)
		}
		if n < f.min || n < 0 && p.Family != "llamacpp" {
			return profile.InvalidParam(f.name, "%s must be at least %d, got %d.", f.name, max(f.min, 0), n)
		}
		*f.to = n
	}
	return nil
}

func checkRange(v *fastjson.Value, name string, lo, hi float64) *profile.APIError {
	f := v.Get(name)
	if f == nil || f.Type() == fastjson.TypeNull {
		return nil
	}
	n, err := f.Float64()
	if err != nil {
		return profile.InvalidParam(name, "Input should be a valid number: %s", name)
	}
	if n < lo || n > hi {
		return profile.InvalidParam(name, "%s must be in [%v, %v], got %v.", name, lo, hi, n)
	}
	return nil
}

func decodeStop(v *fastjson.Value, q *Request) *profile.APIError {
	s := v.Get("stop")
	if s == nil || s.Type() == fastjson.TypeNull {
		return nil
	}
	switch s.Type() {
	case fastjson.TypeString:
		q.stop = append(q.stop, string(s.GetStringBytes()))
	case fastjson.TypeArray:
		for _, one := range s.GetArray() {
			if one.Type() != fastjson.TypeString {
				return profile.InvalidParam("stop", "Input should be a valid string: stop")
			}
			q.stop = append(q.stop, string(one.GetStringBytes()))
		}
	default:
		return profile.InvalidParam("stop", "Input should be a valid string or list: stop")
	}
	for _, one := range q.stop {
		if one == "" {
			return profile.InvalidParam("stop", "stop cannot contain an empty string.")
		}
	}
	return nil
}

// AddMessage adds a message to the prompt. If the message is from the user, it returns the text.
func (d *Decoder) AddMessage(q *Request, i int, m *fastjson.Value) (string, *profile.APIError) {
	param := func(rest string) string { return "messages[" + strconv.Itoa(i) + "]" + rest }
	if m.Type() != fastjson.TypeObject {
		return "", profile.InvalidParam(param(""), "Input should be a valid object: %s", param(""))
	}
	role := string(m.GetStringBytes("role"))
	switch role {
	case "system", "developer":
		if d.StrictSystem && i > 0 {
			return "", profile.InvalidParam(param(""), "System message must be at the beginning.")
		}
	case "user", "assistant", "function":
	case "tool":
		q.memory.toolUsed = true
		if len(m.GetStringBytes("tool_call_id")) == 0 {
			return "", profile.InvalidParam(param(".tool_call_id"),
				"Missing parameter 'tool_call_id': messages with role 'tool' must have one.")
		}
	case "":
		if d.Profile.Family == "llamacpp" { // llama.cpp answers with a server error
			return "", &profile.APIError{Status: 500, Message: "Failed to parse messages: Missing 'role' in message"}
		}
		return "", profile.InvalidParam(param(".role"), "Field required: %s", param(".role"))
	default:
		return "", profile.InvalidParam(param(".role"), "Unexpected message role: %s", role)
	}
	q.Prompt.AddString(role + "\n")
	q.Prompt.Extra += scheduler.MessageTokens
	said := ""
	if text := m.GetStringBytes(d.Profile.Reasoning); role == "assistant" && d.Profile.Reasoning != "" && len(text) > 0 {
		q.addReasoning(text)
	}
	if err := d.checkContent(m); err != nil {
		return "", err
	}
	content := m.Get("content")
	calls := m.Get("tool_calls")
	switch {
	case content == nil || content.Type() == fastjson.TypeNull:
		if role != "assistant" {
			return "", profile.InvalidParam(param(".content"), "Field required: %s", param(".content"))
		}
	case content.Type() == fastjson.TypeString:
		b := content.GetStringBytes()
		q.Prompt.Add(b)
		if role == "user" {
			said = string(b)
		}
	case content.Type() == fastjson.TypeArray:
		for j, part := range content.GetArray() {
			text, err := readPart(q, part, func() string { return param(".content[" + strconv.Itoa(j) + "]") })
			if err != nil {
				return "", err
			}
			if role == "user" {
				said += text
			}
		}
	default:
		return "", profile.InvalidParam(param(".content"), "Input should be a valid string or list: %s", param(".content"))
	}
	if calls != nil && calls.Type() != fastjson.TypeNull {
		if calls.Type() != fastjson.TypeArray || role != "assistant" {
			return "", profile.InvalidParam(param(".tool_calls"), "Input should be a valid list: %s", param(".tool_calls"))
		}
		for _, c := range calls.GetArray() {
			f := c.Get("function")
			if len(c.GetStringBytes("id")) == 0 || len(f.GetStringBytes("name")) == 0 ||
				f.Get("arguments") == nil || f.Get("arguments").Type() != fastjson.TypeString {
				return "", profile.InvalidParam(param(".tool_calls"),
					"Input should have id, function.name and function.arguments as strings: %s", param(".tool_calls"))
			}
			q.Prompt.Add(f.GetStringBytes("name"))
			q.Prompt.Add(f.GetStringBytes("arguments"))
		}
	}
	return said, nil
}

func readPart(q *Request, part *fastjson.Value, param func() string) (string, *profile.APIError) {
	kind := string(part.GetStringBytes("type"))
	switch kind {
	case "text", "input_text", "refusal":
		t := part.Get("text")
		if kind == "refusal" {
			t = part.Get("refusal")
		}
		if t == nil || t.Type() != fastjson.TypeString {
			return "", profile.InvalidParam(param(), "Field required: %s.text", param())
		}
		q.Prompt.Add(t.GetStringBytes())
		return string(t.GetStringBytes()), nil
	case "image_url":
		url := part.GetStringBytes("image_url", "url")
		if len(url) == 0 {
			return "", profile.InvalidParam(param(), "Field required: %s.image_url.url", param())
		}
		q.Prompt.AddImage(url)
		return "", nil
	case "input_audio":
		data := part.GetStringBytes("input_audio", "data")
		if len(data) == 0 {
			return "", profile.InvalidParam(param(), "Field required: %s.input_audio.data", param())
		}
		q.Prompt.AddImage(data)
		return "", nil
	}
	return "", profile.InvalidParam(param(), "Unknown part type: %s", kind)
}

// DecodeCompletion decodes a legacy completions body. Each prompt gets n choices.
func (d *Decoder) DecodeCompletion(v *fastjson.Value, q *Request) *profile.APIError {
	if err := d.DecodeCommon(v, q); err != nil {
		return err
	}
	prompts := 1
	p := v.Get("prompt")
	switch {
	case p == nil:
		return profile.InvalidParam("prompt", "Field required: prompt")
	case p.Type() == fastjson.TypeString:
		q.Prompt.Add(p.GetStringBytes())
		if d.Controls.Echo {
			q.fixed, q.hasFixed = string(p.GetStringBytes()), true
		}
	case p.Type() == fastjson.TypeArray && len(p.GetArray()) > 0:
		list := p.GetArray()
		if list[0].Type() != fastjson.TypeNumber {
			prompts = len(list)
		}
		for _, one := range list {
			switch one.Type() {
			case fastjson.TypeString:
				q.Prompt.Add(one.GetStringBytes())
			case fastjson.TypeNumber: // a token of the prompt
				q.Prompt.AddString(strconv.Itoa(one.GetInt()))
				q.Prompt.Bytes -= len(strconv.Itoa(one.GetInt()))
				q.Prompt.Extra++
			case fastjson.TypeArray:
				q.Prompt.Add(one.MarshalTo(nil))
			default:
				return profile.InvalidParam("prompt", "Input should be a string, a list of strings or of tokens: prompt")
			}
		}
	default:
		return profile.InvalidParam("prompt", "Input should be a string, a list of strings or of tokens: prompt")
	}
	if q.Max < 0 {
		q.Max = 16
	}
	if q.N *= prompts; q.N > 1024 {
		return profile.InvalidParam("prompt", "too many choices: %d", q.N)
	}
	if s := markedControls(string(v.GetStringBytes("prompt"))); s != "" {
		if err := d.Controls.parseBody([]byte(s)); err != nil {
			return profile.InvalidParam("prompt", "sim: %s", err)
		}
	}
	return nil
}
