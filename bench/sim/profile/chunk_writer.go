package profile

import (
	"strconv"

	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// ChunkWriter writes chunks and answers the way one engine does; recordings of them say how, and
// their sources.
type ChunkWriter struct {
	Profile   *Profile
	ID, Model string
	Created   int64
	Legacy    bool // /v1/completions
	NullUsage bool // "usage":null on every chunk but the last
}

// Chunk is one event's worth of a choice.
type Chunk struct {
	Index    int
	Delta    []byte // the JSON object; for legacy the JSON string
	Finish   string
	Stopped  string
	Logprobs []byte
	Usage    []byte
	Timings  []byte
}

// AppendHead writes the members that every chunk and every answer begins with.
func (s *ChunkWriter) AppendHead(dst []byte, object string) []byte {
	dst = append(dst, `"id":"`...)
	dst = append(dst, s.ID...)
	dst = append(dst, `","object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, s.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = wire.AppendString(dst, s.Model)
	switch s.Profile.Family {
	case "openai":
		dst = append(dst, `,"service_tier":"default","system_fingerprint":"fp_sim0000000"`...)
	case "ollama":
		dst = append(dst, `,"system_fingerprint":"fp_ollama"`...)
	case "tgi":
		dst = append(dst, `,"system_fingerprint":"0.0.0-sim"`...)
	case "lmstudio":
		dst = append(dst, `,"system_fingerprint":`...)
		dst = wire.AppendString(dst, s.Model)
	}
	return dst
}

// AppendTail is llama.cpp's order: the head comes last.
func (s *ChunkWriter) AppendTail(dst []byte, object string) []byte {
	dst = append(dst, `"created":`...)
	dst = strconv.AppendInt(dst, s.Created, 10)
	dst = append(dst, `,"id":"`...)
	dst = append(dst, s.ID...)
	dst = append(dst, `","model":`...)
	dst = wire.AppendString(dst, s.Model)
	dst = append(dst, `,"system_fingerprint":"b11669-sim","object":"`...)
	dst = append(dst, object...)
	return append(dst, '"')
}

// AppendFinish writes a finish_reason; none is null.
func AppendFinish(dst []byte, finish string) []byte {
	if finish == "" {
		return append(dst, "null"...)
	}
	return wire.AppendString(dst, finish)
}

func (s *ChunkWriter) chunkObject() string {
	if s.Legacy {
		return "text_completion"
	}
	return "chat.completion.chunk"
}

// AppendOrNull writes a value that is JSON already; none is null.
func AppendOrNull(dst, v []byte) []byte {
	if len(v) == 0 {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}

// Append writes one chunk.
func (s *ChunkWriter) Append(dst []byte, c *Chunk) []byte {
	member := `"delta":`
	if s.Legacy {
		member = `"text":`
	}
	if s.Profile.Family == "llamacpp" {
		dst = append(dst, `{"choices":[{"finish_reason":`...)
		dst = AppendFinish(dst, c.Finish)
		dst = append(dst, `,"index":`...)
		dst = strconv.AppendInt(dst, int64(c.Index), 10)
		dst = append(dst, ',')
		dst = append(dst, member...)
		dst = append(dst, c.Delta...)
		if len(c.Logprobs) > 0 || s.Legacy {
			dst = append(dst, `,"logprobs":`...)
			dst = AppendOrNull(dst, c.Logprobs)
		}
		dst = append(dst, `}],`...)
		dst = s.AppendTail(dst, s.chunkObject())
		if len(c.Usage) > 0 {
			dst = append(dst, `,"usage":`...)
			dst = append(dst, c.Usage...)
		}
		if len(c.Timings) > 0 {
			dst = append(dst, `,"timings":`...)
			dst = append(dst, c.Timings...)
		}
		return append(dst, '}')
	}
	dst = append(dst, '{')
	dst = s.AppendHead(dst, s.chunkObject())
	dst = append(dst, `,"choices":[{"index":`...)
	dst = strconv.AppendInt(dst, int64(c.Index), 10)
	dst = append(dst, ',')
	dst = append(dst, member...)
	dst = append(dst, c.Delta...)
	terse := s.Profile.Family == "trtllm" && !s.Legacy // members that would be null are left out
	if len(c.Logprobs) > 0 || s.Profile.Family != "ollama" && !terse {
		dst = append(dst, `,"logprobs":`...)
		dst = AppendOrNull(dst, c.Logprobs)
	}
	if c.Finish != "" || !terse {
		dst = append(dst, `,"finish_reason":`...)
		dst = AppendFinish(dst, c.Finish)
	}
	switch {
	case s.Profile.Family == "trtllm" && (c.Stopped != "" || s.Legacy):
		dst = append(dst, `,"stop_reason":`...)
		dst = AppendFinish(dst, c.Stopped)
	case s.Profile.Family == "vllm" && c.Finish != "":
		dst = append(dst, `,"stop_reason":`...)
		dst = AppendFinish(dst, c.Stopped)
	case s.Profile.Family == "sglang":
		dst = append(dst, `,"matched_stop":`...)
		dst = AppendFinish(dst, c.Stopped)
	}
	dst = append(dst, `}]`...)
	if len(c.Usage) > 0 || s.NullUsage {
		dst = append(dst, `,"usage":`...)
		dst = AppendOrNull(dst, c.Usage)
	}
	return append(dst, '}')
}

// AppendUsageChunk writes the chunk that has usage and no choices.
func (s *ChunkWriter) AppendUsageChunk(dst, usage, timings []byte) []byte {
	if s.Profile.Family == "llamacpp" {
		dst = append(dst, `{"choices":[],`...)
		dst = s.AppendTail(dst, s.chunkObject())
	} else {
		dst = append(dst, '{')
		dst = s.AppendHead(dst, s.chunkObject())
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

// AppendRole is the delta that opens a choice.
func (s *ChunkWriter) AppendRole(dst []byte) []byte {
	switch s.Profile.Family {
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

// AppendEnd is the delta that comes with finish_reason.
func (s *ChunkWriter) AppendEnd(dst []byte) []byte {
	if s.Legacy {
		return append(dst, `""`...)
	}
	switch s.Profile.Family {
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

// AppendPiece is the delta of one token. first: the choice has no opening chunk, its first delta
// carries the role.
func (s *ChunkWriter) AppendPiece(dst []byte, p *Piece, c *ToolCall, first bool) []byte {
	if s.Legacy {
		dst = append(dst, '"')
		dst = append(dst, p.Escaped...)
		return append(dst, '"')
	}
	dst = append(dst, '{')
	if first || s.Profile.Roles == roleEach {
		dst = append(dst, `"role":"assistant",`...)
	}
	sgl, trt := s.Profile.Family == "sglang", s.Profile.Family == "trtllm"
	switch p.Kind {
	case PieceText:
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
	case PieceThought:
		switch {
		case sgl:
			dst = append(dst, `"role":null,"content":null,`...)
		case s.Profile.Family == "ollama" || trt:
			dst = append(dst, `"content":"",`...)
		}
		dst = append(dst, '"')
		dst = append(dst, s.Profile.Reasoning...)
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
		case s.Profile.Family == "ollama":
			dst = append(dst, `"content":"",`...)
		}
		dst = append(dst, `"tool_calls":[`...)
		dst = s.appendCallPiece(dst, p, c)
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func (s *ChunkWriter) appendCallPiece(dst []byte, p *Piece, c *ToolCall) []byte {
	index := func() {
		dst = append(dst, `"index":`...)
		dst = strconv.AppendInt(dst, int64(p.Call), 10)
		dst = append(dst, ',')
	}
	dst = append(dst, '{')
	if p.Kind == PieceArgs {
		switch s.Profile.Family {
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
	if s.Profile.Is("vllm ollama trtllm") {
		dst = append(dst, `"id":`...)
		dst = wire.AppendString(dst, c.ID)
		dst = append(dst, ',')
		index()
	} else {
		index()
		dst = append(dst, `"id":`...)
		dst = wire.AppendString(dst, c.ID)
		dst = append(dst, ',')
	}
	dst = append(dst, `"type":"function","function":{"name":`...)
	dst = wire.AppendString(dst, c.Name)
	switch {
	case p.Kind == PieceWhole:
		dst = append(dst, `,"arguments":`...)
		dst = wire.AppendString(dst, c.Args)
	case s.Profile.Family != "vllm":
		dst = append(dst, `,"arguments":"`...)
		dst = append(dst, p.Escaped...)
		dst = append(dst, '"')
	}
	return append(dst, "}}"...)
}

// AppendUsage writes the usage object.
func (p *Profile) AppendUsage(dst []byte, prompt, completion, cached, reasoning int) []byte {
	num := func(name string, n int) {
		dst = append(dst, name...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	num(`{"prompt_tokens":`, prompt)
	num(`,"total_tokens":`, prompt+completion)
	num(`,"completion_tokens":`, completion)
	switch p.Family {
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
	if !p.Is("llamacpp trtllm") {
		num(`,"completion_tokens_details":{"reasoning_tokens":`, reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// AppendLogprobs writes the logprobs object of one or more tokens.
func AppendLogprobs(dst []byte, ws []textgen.Word, tops int) []byte {
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
