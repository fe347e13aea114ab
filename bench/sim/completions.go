package sim

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/generate"
	"penstock/bench/sim/pages"
	"penstock/bench/sim/profile"
	"penstock/bench/sim/scheduler"
	"penstock/bench/sim/textgen"
)

// serveCompletions answers POST /v1/completions with n choices for each prompt.
func serveCompletions(x *exchange) {
	serveTextGeneration(x, "cmpl-"+profile.Hex32(x.e.nextID()), newDecoder(x).DecodeCompletion)
}

const embeddingDimensions = 8

// serveEmbeddings answers POST /v1/embeddings with short unit vectors that depend only on the text.
func serveEmbeddings(x *exchange) {
	e := x.e
	p := parserPool.Get()
	defer parserPool.Put(p)
	v, q, ok := decodeSmallRequest(x, p)
	if !ok {
		return
	}
	var inputs [][]byte
	in := v.Get("input")
	switch {
	case in == nil:
		x.replyError(*profile.InvalidParam("input", "Field required: input"))
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
		x.replyError(*profile.InvalidParam("input", "Input content cannot be empty"))
		return
	}
	size := embeddingDimensions
	if d := v.GetInt("dimensions"); d > 0 && d <= 4096 {
		size = d
	}
	format := string(v.GetStringBytes("encoding_format"))
	out := nonGeneratingReplyData{Family: x.p.Family, Model: q.Model, ID: profile.Hex32(e.nextID()), Created: unixNow()}
	for i, in := range inputs {
		q.Prompt.Add(in)
		out.Items = append(out.Items, prefillReplyItem{Index: i, Text: encodeVector(embedText(in, size), format)})
	}
	out.answer(x, "embeddings", &q.Prompt)
}

// encodeVector returns an embedding as JSON.
func encodeVector(v []float32, format string) string {
	if format == "base64" {
		raw := make([]byte, 0, 4*len(v))
		for _, f := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		return `"` + base64.StdEncoding.EncodeToString(raw) + `"`
	}
	b := []byte{'['}
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	}
	return string(append(b, ']'))
}

// embedText returns a unit vector. Texts with words in common have similar vectors.
func embedText(text []byte, size int) []float32 {
	sum := make([]float64, size)
	for w := range strings.FieldsSeq(strings.ToLower(string(text))) {
		h := textgen.Hash(7, []byte(w))
		for i := range sum {
			sum[i] += float64(textgen.MixHash(h, uint64(i))>>11)/(1<<52) - 1
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

// serveRerank answers POST /v1/rerank. Documents that have words in common with the query come
// first.
func serveRerank(x *exchange) {
	e := x.e
	p := parserPool.Get()
	defer parserPool.Put(p)
	v, q, ok := decodeSmallRequest(x, p)
	if !ok {
		return
	}
	query, docs := v.GetStringBytes("query"), v.GetArray("documents")
	if query == nil || len(docs) == 0 {
		x.replyError(*profile.InvalidParam("documents", "query and documents are required"))
		return
	}
	q.Prompt.Add(query)
	qv := embedText(query, 64)
	hits := make([]prefillReplyItem, len(docs))
	for i, d := range docs {
		t := d.GetStringBytes()
		if t == nil {
			t = d.GetStringBytes("text")
		}
		q.Prompt.Add(t)
		dot := 0.0
		for j, f := range embedText(t, 64) {
			dot += float64(f) * float64(qv[j])
		}
		hits[i] = prefillReplyItem{i, string(t), (dot + 1) / 2}
	}
	slices.SortStableFunc(hits, func(a, b prefillReplyItem) int { return cmp.Compare(b.Score, a.Score) })
	if top := v.GetInt("top_n"); top > 0 && top < len(hits) {
		hits = hits[:top]
	}
	out := nonGeneratingReplyData{Model: q.Model, ID: profile.Hex32(e.nextID()), Items: hits}
	out.answer(x, "rerank", &q.Prompt)
}

// decodeSmallRequest decodes the members common to all endpoints that generate no tokens. It
// returns false if it has already answered the request.
func decodeSmallRequest(x *exchange, p *fastjson.Parser) (*fastjson.Value, *generate.Request, bool) {
	v, err := generate.ParseBody(p, x.req.body)
	q := new(generate.Request)
	if err == nil {
		err = newDecoder(x).DecodeCommon(v, q)
	}
	if err != nil {
		x.replyError(*err)
		return nil, nil, false
	}
	if x.injectResponseFault() {
		return nil, nil, false
	}
	return v, q, true
}

// nonGeneratingReplyData is the template data for a response that requires only a prefill.
type nonGeneratingReplyData struct {
	Family, Model, ID string
	Created           int64
	Tokens            int
	Items             []prefillReplyItem
}

type prefillReplyItem struct {
	Index int
	Text  string // a document, or an embedding as JSON
	Score float64
}

// answer performs the prefill and answers the request.
func (s *nonGeneratingReplyData) answer(x *exchange, template string, p *scheduler.Prompt) {
	a := newAnswer(x, &generate.Request{Prompt: *p, Max: -1})
	defer a.releaseSlot()
	if a.acquireSlot() && a.waitPrefill() {
		a.releaseSlot()
		s.Tokens = a.state.Prompt
		x.replyJSON(pages.RenderAnswer("chat", template, s))
	}
}
