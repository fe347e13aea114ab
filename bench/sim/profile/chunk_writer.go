package profile

import (
	"strings"

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

	frame   string // of every chunk, for
	created int64
	model   string
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

// Frame is the members that every chunk and every answer has: they come first, and last in
// llama.cpp's.
func (s *ChunkWriter) Frame(object string) string {
	if s.Legacy {
		object = "text_completion"
	}
	var o wire.Members
	if s.Profile.Family == "llamacpp" {
		o.Add(`"created":`).Int(int(s.Created)).Add(`,"id":"`, s.ID, `","model":`).Quote(s.Model)
		return string(*o.Add(`,"system_fingerprint":"b11669-sim","object":"`, object, `"`))
	}
	o.Add(`"id":"`, s.ID, `","object":"`, object, `","created":`).Int(int(s.Created)).Add(`,"model":`).Quote(s.Model)
	if before, after, named := strings.Cut(s.Profile.Extra, "%s"); named {
		o.Add(before).Quote(s.Model).Add(after)
	} else {
		o.Add(before)
	}
	return string(o)
}

// chunkFrame is what all chunks have in common: written once, not for each token.
func (s *ChunkWriter) chunkFrame() string {
	if s.frame != "" && s.created == s.Created && s.model == s.Model {
		return s.frame
	}
	s.frame, s.created, s.model = s.Frame("chat.completion.chunk"), s.Created, s.Model
	return s.frame
}

// Append writes one chunk.
func (s *ChunkWriter) Append(dst []byte, c *Chunk) []byte {
	member := `"delta":`
	if s.Legacy {
		member = `"text":`
	}
	o := wire.Members(dst)
	if s.Profile.Family == "llamacpp" {
		o.Add(`{"choices":[{"finish_reason":`).QuoteOrNull(c.Finish).Add(`,"index":`).Int(c.Index)
		o.Add(",", member).JSON(c.Delta)
		if len(c.Logprobs) > 0 || s.Legacy {
			o.Add(`,"logprobs":`).JSON(c.Logprobs)
		}
		o.Add(`}],`, s.chunkFrame())
		if len(c.Usage) > 0 {
			o.Add(`,"usage":`).JSON(c.Usage)
		}
		if len(c.Timings) > 0 {
			o.Add(`,"timings":`).JSON(c.Timings)
		}
		return append(o, '}')
	}
	o.Add(`{`, s.chunkFrame(), `,"choices":[{"index":`).Int(c.Index).Add(",", member).JSON(c.Delta)
	terse := s.Profile.Family == "trtllm" && !s.Legacy // members that would be null are left out
	if len(c.Logprobs) > 0 || s.Profile.Family != "ollama" && !terse {
		o.Add(`,"logprobs":`).JSON(c.Logprobs)
	}
	if c.Finish != "" || !terse {
		o.Add(`,"finish_reason":`).QuoteOrNull(c.Finish)
	}
	switch {
	case s.Profile.Family == "trtllm" && (c.Stopped != "" || s.Legacy), s.Profile.Family == "vllm" && c.Finish != "":
		o.Add(`,"stop_reason":`).QuoteOrNull(c.Stopped)
	case s.Profile.Family == "sglang":
		o.Add(`,"matched_stop":`).QuoteOrNull(c.Stopped)
	}
	o.Add(`}]`)
	if len(c.Usage) > 0 || s.NullUsage {
		o.Add(`,"usage":`).JSON(c.Usage)
	}
	return append(o, '}')
}

// AppendUsageChunk writes the chunk that has usage and no choices.
func (s *ChunkWriter) AppendUsageChunk(dst, usage, timings []byte) []byte {
	o := wire.Members(dst)
	if s.Profile.Family == "llamacpp" {
		o.Add(`{"choices":[],`, s.chunkFrame())
	} else {
		o.Add(`{`, s.chunkFrame(), `,"choices":[]`)
	}
	o.Add(`,"usage":`).JSON(usage)
	if len(timings) > 0 {
		o.Add(`,"timings":`).JSON(timings)
	}
	return append(o, '}')
}

// AppendRole is the delta that opens a choice.
func (s *ChunkWriter) AppendRole(dst []byte) []byte {
	return append(dst, s.Profile.RoleDelta...)
}

// AppendEnd is the delta that comes with finish_reason.
func (s *ChunkWriter) AppendEnd(dst []byte) []byte {
	if s.Legacy {
		return append(dst, `""`...)
	}
	return append(dst, s.Profile.EndDelta...)
}

// AppendPiece is the delta of one token. first: the choice has no opening chunk, its first delta
// carries the role.
func (s *ChunkWriter) AppendPiece(dst []byte, p *Piece, c *ToolCall, first bool) []byte {
	o := wire.Members(dst)
	if s.Legacy {
		return *o.Add(`"`, p.Escaped, `"`)
	}
	o.Add(`{`)
	if first || s.Profile.Roles == roleEach {
		o.Add(`"role":"assistant",`)
	}
	switch p.Kind {
	case PieceText:
		around := s.Profile.Around["text"]
		o.Add(around[0], `"content":"`, p.Escaped, `"`, around[1])
	case PieceThought:
		around := s.Profile.Around["thought"]
		o.Add(around[0], `"`, s.Profile.Reasoning, `":"`, p.Escaped, `"`, around[1])
	default:
		s.callPiece(o.Add(s.Profile.Around["call"][0], `"tool_calls":[`), p, c)
		o.Add(`]`)
	}
	return *o.Add(`}`)
}

func (s *ChunkWriter) callPiece(o *wire.Members, p *Piece, c *ToolCall) {
	name := c.Name
	switch {
	case p.Kind == PieceName:
		o.Add(`{"index":`).Int(p.Call).Add(`,"function":{"name":`).Quote(name[c.Head:]).Add(`}}`)
		return
	case c.Head > 0 && p.Kind == PieceCall:
		name = name[:c.Head]
	}
	if p.Kind == PieceArgs {
		before, after := "", ""
		switch s.Profile.Family {
		case "trtllm":
			before = `"type":"function",`
		case "tgi":
			after = `"id":"0","type":"function","function":{"name":null,"arguments":"`
		}
		if after == "" {
			after = `"function":{"arguments":"`
		}
		o.Add(`{`, before, `"index":`).Int(p.Call).Add(`,`, after, p.Escaped, `"}}`)
		return
	}
	if s.Profile.Is("vllm ollama trtllm") {
		o.Add(`{"id":`).Quote(c.ID).Add(`,"index":`).Int(p.Call)
	} else {
		o.Add(`{"index":`).Int(p.Call).Add(`,"id":`).Quote(c.ID)
	}
	o.Add(`,"type":"function","function":{"name":`).Quote(name)
	switch {
	case p.Kind == PieceWhole:
		o.Add(`,"arguments":`).Quote(c.Args)
	case s.Profile.Family != "vllm":
		o.Add(`,"arguments":"`, p.Escaped, `"`)
	}
	o.Add(`}}`)
}

// AppendUsage writes the usage object.
func (p *Profile) AppendUsage(dst []byte, prompt, completion, cached, reasoning int) []byte {
	o := wire.Members(dst)
	o.Add(`{"prompt_tokens":`).Int(prompt).Add(`,"total_tokens":`).Int(prompt + completion)
	o.Add(`,"completion_tokens":`).Int(completion)
	switch p.Family {
	case "ollama", "tgi", "lmstudio":
		return append(o, '}')
	case "sglang":
		if cached > 0 {
			o.Add(`,"prompt_tokens_details":{"cached_tokens":`).Int(cached).Add(`}`)
		} else {
			o.Add(`,"prompt_tokens_details":null`)
		}
		return *o.Add(`,"reasoning_tokens":`).Int(reasoning).Add(`}`)
	}
	o.Add(`,"prompt_tokens_details":{"cached_tokens":`).Int(cached).Add(`}`)
	if !p.Is("llamacpp trtllm") {
		o.Add(`,"completion_tokens_details":{"reasoning_tokens":`).Int(reasoning).Add(`}`)
	}
	return append(o, '}')
}

// AppendLogprobs writes the logprobs object of one or more tokens.
func AppendLogprobs(dst []byte, ws []textgen.Word, tops int) []byte {
	o := wire.Members(dst)
	o.Add(`{"content":[`)
	for i, w := range ws {
		if i > 0 {
			o.Add(`,`)
		}
		token(&o, w)
		if o.Add(`,"top_logprobs":[`); tops > 0 {
			token(&o, w)
			o.Add(`}`)
		}
		o.Add(`]}`)
	}
	return *o.Add(`]}`)
}

func token(o *wire.Members, w textgen.Word) {
	o.Add(`{"token":"`, w.Escaped, `","logprob":-0.25,"bytes":[`)
	for i := range len(w.Text) {
		if i > 0 {
			o.Add(`,`)
		}
		o.Int(int(w.Text[i]))
	}
	o.Add(`]`)
}
