package sim

import (
	"strconv"

	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// chunkWriter writes chunks and answers the way one engine does; recordings of them say how, and
// their sources.
type chunkWriter struct {
	p         *profile
	id, model string
	created   int64
	legacy    bool // /v1/completions
	nullUsage bool // "usage":null on every chunk but the last
}

// chunk is one event's worth of a choice.
type chunk struct {
	index    int
	delta    []byte // the JSON object; for legacy the JSON string
	finish   string
	stopped  string
	logprobs []byte
	usage    []byte
	timings  []byte
}

func (s *chunkWriter) appendHead(dst []byte, object string) []byte {
	dst = append(dst, `"id":"`...)
	dst = append(dst, s.id...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, s.created, 10)
	dst = append(dst, `,"model":`...)
	dst = wire.AppendString(dst, s.model)
	switch s.p.family {
	case "openai":
		dst = append(dst, `,"service_tier":"default","system_fingerprint":"fp_sim0000000"`...)
	case "ollama":
		dst = append(dst, `,"system_fingerprint":"fp_ollama"`...)
	case "tgi":
		dst = append(dst, `,"system_fingerprint":"0.0.0-sim"`...)
	case "lmstudio":
		dst = append(dst, `,"system_fingerprint":`...)
		dst = wire.AppendString(dst, s.model)
	}
	return dst
}

// appendTail is llama.cpp's order: the head comes last.
func (s *chunkWriter) appendTail(dst []byte, object string) []byte {
	dst = append(dst, `"created":`...)
	dst = strconv.AppendInt(dst, s.created, 10)
	dst = append(dst, `,"id":"`...)
	dst = append(dst, s.id...)
	dst = append(dst, `","model":`...)
	dst = wire.AppendString(dst, s.model)
	dst = append(dst, `,"system_fingerprint":"b11669-sim","object":"`...)
	dst = append(dst, object...)
	return append(dst, '"')
}

func appendFinish(dst []byte, finish string) []byte {
	if finish == "" {
		return append(dst, "null"...)
	}
	return wire.AppendString(dst, finish)
}

func (s *chunkWriter) chunkObject() string {
	if s.legacy {
		return "text_completion"
	}
	return "chat.completion.chunk"
}

func appendOrNull(dst, v []byte) []byte {
	if len(v) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}

// append writes one chunk.
func (s *chunkWriter) append(dst []byte, c *chunk) []byte {
	member := `"delta":`
	if s.legacy {
		member = `"text":`
	}
	if s.p.family == "llamacpp" {
		dst = append(dst, `{"choices":[{"finish_reason":`...)
		dst = appendFinish(dst, c.finish)
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(c.index), 10)
		dst = append(dst, ',')
		dst = append(dst, member...)
		dst = append(dst, c.delta...)
		if len(c.logprobs) > 0 || s.legacy {
			dst = append(dst, `,"logprobs":`...)
			dst = appendOrNull(dst, c.logprobs)
		}
		dst = append(dst, `}],`...)
		dst = s.appendTail(dst, s.chunkObject())
		if len(c.usage) > 0 {
			dst = append(dst, `,"usage":`...)
			dst = append(dst, c.usage...)
		}
		if len(c.timings) > 0 {
			dst = append(dst, `,"timings":`...)
			dst = append(dst, c.timings...)
		}
		return append(dst, '}')
	}
	dst = append(dst, '{')
	dst = s.appendHead(dst, s.chunkObject())
	dst = append(dst, `,"choices":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.index), 10)
	dst = append(dst, ',')
	dst = append(dst, member...)
	dst = append(dst, c.delta...)
	terse := s.p.family == "trtllm" && !s.legacy // members that would be null are left out
	if len(c.logprobs) > 0 || s.p.family != "ollama" && !terse {
		dst = append(dst, `,"logprobs":`...)
		dst = appendOrNull(dst, c.logprobs)
	}
	if c.finish != "" || !terse {
		dst = append(dst, `,"finish_reason":`...)
		dst = appendFinish(dst, c.finish)
	}
	switch {
	case s.p.family == "trtllm" && (c.stopped != "" || s.legacy):
		dst = append(dst, `,"stop_reason":`...)
		dst = appendFinish(dst, c.stopped)
	case s.p.family == "vllm" && c.finish != "":
		dst = append(dst, `,"stop_reason":`...)
		dst = appendFinish(dst, c.stopped)
	case s.p.family == "sglang":
		dst = append(dst, `,"matched_stop":`...)
		dst = appendFinish(dst, c.stopped)
	}
	dst = append(dst, `}]`...)
	if len(c.usage) > 0 || s.nullUsage {
		dst = append(dst, `,"usage":`...)
		dst = appendOrNull(dst, c.usage)
	}
	return append(dst, '}')
}

// appendUsageChunk writes the chunk that has usage and no choices.
func (s *chunkWriter) appendUsageChunk(dst, usage, timings []byte) []byte {
	if s.p.family == "llamacpp" {
		dst = append(dst, `{"choices":[],`...)
		dst = s.appendTail(dst, s.chunkObject())
	} else {
		dst = append(dst, '{')
		dst = s.appendHead(dst, s.chunkObject())
		dst = append(dst, `,"choices":[]`...)
	}
	dst = append(dst, `,"usage":`...)
	dst = append(dst, usage...)
	if len(timings) > 0 {
		dst = append(dst, `,"timings":`...)
		dst = append(dst, timings...)
	}
	return append(dst, '}')
}

// deltas

// appendRole is the delta that opens a choice.
func (s *chunkWriter) appendRole(dst []byte) []byte {
	switch s.p.family {
	case "llamacpp":
		return append(dst, `{"role":"assistant","content":null}`...)
	case "openai":
		return append(dst, `{"role":"assistant","content":"","refusal":null}`...)
	case "sglang":
		return append(dst, `{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null}`...)
	case "trtllm":
		return append(dst, `{"role":"assistant"}`...)
	}
	return append(dst, `{"role":"assistant","content":""}`...)
}

// appendEnd is the delta that comes with finish_reason.
func (s *chunkWriter) appendEnd(dst []byte) []byte {
	if s.legacy {
		return append(dst, `""`...)
	}
	switch s.p.family {
	case "vllm":
		return append(dst, `{"content":""}`...)
	case "sglang":
		return append(dst, `{"role":null,"content":null,"reasoning_content":null,"tool_calls":null}`...)
	case "tgi":
		return append(dst, `{"role":"assistant","content":""}`...)
	case "trtllm":
		return append(dst, `{"content":"","reasoning_content":""}`...)
	}
	return append(dst, "{}"...)
}

// appendPiece is the delta of one token. first: the choice has no opening chunk, its first delta
// carries the role.
func (s *chunkWriter) appendPiece(dst []byte, p *piece, c *call, first bool) []byte {
	if s.legacy {
		dst = append(dst, '"')
		dst = append(dst, p.Escaped...)
		return append(dst, '"')
	}
	dst = append(dst, '{')
	if first || s.p.roles == roleEach {
		dst = append(dst, `"role":"assistant",`...)
	}
	sgl, trt := s.p.family == "sglang", s.p.family == "trtllm"
	switch p.kind {
	case pieceText:
		if sgl {
			dst = append(dst, `"role":null,`...)
		}
		dst = append(dst, `"content":"`...)
		dst = append(dst, p.Escaped...)
		dst = append(dst, '"')
		switch {
		case sgl:
			dst = append(dst, `,"reasoning_content":null,"tool_calls":null`...)
		case trt:
			dst = append(dst, `,"reasoning_content":""`...)
		}
	case pieceThought:
		switch {
		case sgl:
			dst = append(dst, `"role":null,"content":null,`...)
		case s.p.family == "ollama" || trt:
			dst = append(dst, `"content":"",`...)
		}
		dst = append(dst, '"')
		dst = append(dst, s.p.reasoning...)
		dst = append(dst, `":"`...)
		dst = append(dst, p.Escaped...)
		dst = append(dst, '"')
		if sgl {
			dst = append(dst, `,"tool_calls":null`...)
		}
	default:
		switch {
		case sgl:
			dst = append(dst, `"role":null,"content":null,"reasoning_content":null,`...)
		case trt:
			dst = append(dst, `"content":"","reasoning_content":"",`...)
		case s.p.family == "ollama":
			dst = append(dst, `"content":"",`...)
		}
		dst = append(dst, `"tool_calls":[`...)
		dst = s.appendCallPiece(dst, p, c)
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (s *chunkWriter) appendCallPiece(dst []byte, p *piece, c *call) []byte {
	index := func() {
		dst = append(dst, `"index":`...)
		dst = strconv.AppendInt(dst, int64(p.call), 10)
		dst = append(dst, ',')
	}
	dst = append(dst, '{')
	if p.kind == pieceArgs {
		switch s.p.family {
		case "trtllm":
			dst = append(dst, `"type":"function",`...)
			index()
			dst = append(dst, `"function":{"arguments":"`...)
		case "tgi":
			index()
			dst = append(dst, `"id":"0","type":"function","function":{"name":null,"arguments":"`...)
		default:
			index()
			dst = append(dst, `"function":{"arguments":"`...)
		}
		dst = append(dst, p.Escaped...)
		return append(dst, `"}}`...)
	}
	if s.p.is("vllm ollama trtllm") {
		dst = append(dst, `"id":`...)
		dst = wire.AppendString(dst, c.id)
		dst = append(dst, ',')
		index()
	} else {
		index()
		dst = append(dst, `"id":`...)
		dst = wire.AppendString(dst, c.id)
		dst = append(dst, ',')
	}
	dst = append(dst, `"type":"function","function":{"name":`...)
	dst = wire.AppendString(dst, c.name)
	switch {
	case p.kind == pieceWhole:
		dst = append(dst, `,"arguments":`...)
		dst = wire.AppendString(dst, c.args)
	case s.p.family != "vllm":
		dst = append(dst, `,"arguments":"`...)
		dst = append(dst, p.Escaped...)
		dst = append(dst, '"')
	}
	return append(dst, "}}"...)
}

// appendUsage writes the usage object.
func (p *profile) appendUsage(dst []byte, prompt, completion, cached, reasoning int) []byte {
	num := func(name string, n int) {
		dst = append(dst, name...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	num(`{"prompt_tokens":`, prompt)
	num(`,"total_tokens":`, prompt+completion)
	num(`,"completion_tokens":`, completion)
	switch p.family {
	case "ollama", "tgi", "lmstudio":
		return append(dst, '}')
	case "sglang":
		if cached > 0 {
			num(`,"prompt_tokens_details":{"cached_tokens":`, cached)
			dst = append(dst, '}')
		} else {
			dst = append(dst, `,"prompt_tokens_details":null`...)
		}
		num(`,"reasoning_tokens":`, reasoning)
		return append(dst, '}')
	}
	num(`,"prompt_tokens_details":{"cached_tokens":`, cached)
	dst = append(dst, '}')
	if !p.is("llamacpp trtllm") {
		num(`,"completion_tokens_details":{"reasoning_tokens":`, reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendLogprobs writes the logprobs object of one or more tokens.
func appendLogprobs(dst []byte, ws []textgen.Word, tops int) []byte {
	dst = append(dst, `{"content":[`...)
	for i, w := range ws {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendToken(dst, w)
		dst = append(dst, `,"top_logprobs":[`...)
		if tops > 0 {
			dst = appendToken(dst, w)
			dst = append(dst, '}')
		}
		dst = append(dst, `]}`...)
	}
	return append(dst, `]}`...)
}

func appendToken(dst []byte, w textgen.Word) []byte {
	dst = append(dst, `{"token":"`...)
	dst = append(dst, w.Escaped...)
	dst = append(dst, `","logprob":-0.25,"bytes":[`...)
	for i := range len(w.Text) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(w.Text[i]), 10)
	}
	return append(dst, ']')
}
