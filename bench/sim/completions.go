package sim

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/generate"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
	"penstock/bench/sim/wire"
)

// completions answers POST /v1/completions: one choice for each prompt and n.
func completions(x *exchange) {
	text(x, "cmpl-"+profile.Hex32(x.e.nextID()), decoderOf(x).Completion)
}

const dimensions = 8

// embeddings answers POST /v1/embeddings with short unit vectors that depend on the text.
func embeddings(x *exchange) {
	e := x.e
	p := parsers.Get()
	defer parsers.Put(p)
	v, q, ok := smallRequest(x, p)
	if !ok {
		return
	}
	var inputs [][]byte
	in := v.Get("input")
	switch {
	case in == nil:
		x.fail(*profile.Invalid("input", "Field required: input"))
		return
	case in.Type() == fastjson.TypeString:
		inputs = append(inputs, in.GetStringBytes())
	case in.Type() == fastjson.TypeArray && len(in.GetArray()) > 0:
		for _, one := range in.GetArray() {
			if one.Type() != fastjson.TypeString {
				inputs = append(inputs, one.MarshalTo(nil))
				continue
			}
			inputs = append(inputs, one.GetStringBytes())
		}
	}
	if len(inputs) == 0 || len(inputs[0]) == 0 {
		x.fail(*profile.Invalid("input", "Input content cannot be empty"))
		return
	}
	size := dimensions
	if d := v.GetInt("dimensions"); d > 0 && d <= 4096 {
		size = d
	}
	b64 := string(v.GetStringBytes("encoding_format")) == "base64"
	b, more := []byte(`{"object":"list"`), ""
	if x.p.Family != "llamacpp" {
		b = fmt.Appendf(b, `,"id":"embd-%s","created":%d`, profile.Hex32(e.nextID()), now())
		more = `,"completion_tokens":0`
	}
	b = append(b, `,"model":`...)
	b = wire.AppendString(b, q.Model)
	b = append(b, `,"data":[`...)
	for i, in := range inputs {
		q.Prompt.Add(in)
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"index":%d,"object":"embedding","embedding":`, i)
		vec := embed(in, size)
		if b64 {
			raw := make([]byte, 0, 4*size)
			for _, f := range vec {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
			}
			b = wire.AppendString(b, base64.StdEncoding.EncodeToString(raw))
		} else {
			b = append(b, '[')
			for j, f := range vec {
				if j > 0 {
					b = append(b, ',')
				}
				b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
			}
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	n := q.Prompt.Tokens()
	b = fmt.Appendf(b, `],"usage":{"prompt_tokens":%d,"total_tokens":%d%s}}`, n, n, more)
	small(x, &q.Prompt, b)
}

// embed is a unit vector: near for texts that share words.
func embed(text []byte, size int) []float32 {
	sum := make([]float64, size)
	for w := range strings.FieldsSeq(strings.ToLower(string(text))) {
		h := textgen.Hash(7, []byte(w))
		for i := range sum {
			sum[i] += float64(textgen.Mix(h, uint64(i))>>11)/(1<<52) - 1
		}
	}
	norm := 0.0
	for _, f := range sum {
		norm += f * f
	}
	if norm == 0 {
		sum[0], norm = 1, 1
	}
	vec := make([]float32, size)
	for i, f := range sum {
		vec[i] = float32(f / math.Sqrt(norm))
	}
	return vec
}

// rerank answers POST /v1/rerank: documents that share words with the query come first.
func rerank(x *exchange) {
	e := x.e
	p := parsers.Get()
	defer parsers.Put(p)
	v, q, ok := smallRequest(x, p)
	if !ok {
		return
	}
	query, docs := v.GetStringBytes("query"), v.GetArray("documents")
	if query == nil || len(docs) == 0 {
		x.fail(*profile.Invalid("documents", "query and documents are required"))
		return
	}
	q.Prompt.Add(query)
	type hit struct {
		index int
		text  []byte
		score float64
	}
	qv := embed(query, 64)
	hits := make([]hit, len(docs))
	for i, d := range docs {
		t := d.GetStringBytes()
		if t == nil {
			t = d.GetStringBytes("text")
		}
		q.Prompt.Add(t)
		dot := 0.0
		for j, f := range embed(t, 64) {
			dot += float64(f) * float64(qv[j])
		}
		hits[i] = hit{i, t, (dot + 1) / 2}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	if top := v.GetInt("top_n"); top > 0 && top < len(hits) {
		hits = hits[:top]
	}
	n := q.Prompt.Tokens()
	b := []byte(`{"id":"rerank-` + profile.Hex32(e.nextID()) + `","model":`)
	b = wire.AppendString(b, q.Model)
	b = fmt.Appendf(b, `,"usage":{"prompt_tokens":%d,"total_tokens":%d},"results":[`, n, n)
	for i, h := range hits {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"index":%d,"document":{"text":`, h.index)
		b = wire.AppendString(b, string(h.text))
		b = fmt.Appendf(b, `},"relevance_score":%.6f}`, h.score)
	}
	small(x, &q.Prompt, append(b, "]}"...))
}

// smallRequest reads what the endpoints without decoding have in common. False: the answer has been
// given.
func smallRequest(x *exchange, p *fastjson.Parser) (*fastjson.Value, *generate.Request, bool) {
	v, err := generate.Parse(p, x.req.body)
	q := new(generate.Request)
	if err == nil {
		err = decoderOf(x).Common(v, q)
	}
	if err != nil {
		x.fail(*err)
		return nil, nil, false
	}
	if x.misbehave() {
		return nil, nil, false
	}
	return v, q, true
}

// small runs work that is nothing but a prefill, and answers.
func small(x *exchange, p *scheduler.Prompt, body []byte) {
	a := newAnswer(x, &generate.Request{Prompt: *p, Max: -1})
	if !a.enter() || !a.prefill() {
		a.release()
		return
	}
	a.release()
	x.json(200, body)
}
