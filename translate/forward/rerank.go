package forward

import (
	"cmp"
	"slices"
	"strconv"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// RerankFormat describes the rerank response that the client requested.
type RerankFormat struct {
	Documents int
	Top       int  // maximum number of results, or 0 for all
	Texts     bool // whether results may contain the documents
}

const reasonNotRanked = "results without an index and a score each"

// Normalize returns the response in the format of Cohere, Jina and vLLM. It has at most Top results
// with index, relevance_score and possibly document, sorted by descending score. SGLang and TEI
// answer with a bare list, call the score `score`, and send a document as `text` or a bare string.
// Some engines ignore top_n. If the body already has this format or is not a ranking, Normalize
// returns it unchanged. The error is a *translate.BadAnswerError.
func (r *RerankFormat) Normalize(body []byte) ([]byte, error) {
	if len(body) > translate.MaxAnswerBytes {
		return body, nil // Answer.Parse also rejects this body, and any invalid body
	}
	var d jsonx.Doc
	if d.Parse(body, jsonx.Options{Record: answerIndexDepth + 1}) != nil {
		return body, nil //nolint:nilerr // for Answer to refuse
	}
	results := d.Root()
	if results.IsObject() {
		if results = results.Get("results"); !results.IsArray() {
			return body, nil
		}
	}
	if !results.IsArray() {
		return body, nil
	}
	ranked, formed, err := r.read(results)
	if err != nil {
		return nil, err
	}
	if formed && d.Root().IsObject() && (r.Top == 0 || len(ranked) <= r.Top) {
		return body, nil
	}
	slices.SortStableFunc(ranked, func(a, b rankedResult) int { return cmp.Compare(b.score, a.score) })
	if r.Top > 0 {
		ranked = ranked[:min(r.Top, len(ranked))]
	}
	list := r.appendList(make([]byte, 0, len(results.Raw())+32*len(ranked)), ranked)
	if !d.Root().IsObject() {
		return append(append([]byte(`{"object":"list","model":"","results":`), list...), '}'), nil
	}
	var edits jsonx.Edits
	edits.Set(results, list)
	return edits.Append(nil, body), nil
}

type rankedResult struct {
	index    int64
	score    float64
	raw      []byte      // the score as received
	document jsonx.Value // may be absent
}

// read returns the results. formed reports whether they already have the required names and order.
func (r *RerankFormat) read(results jsonx.Value) (ranked []rankedResult, formed bool, err error) {
	formed = true
	bad := &translate.BadAnswerError{Reason: reasonNotRanked}
	for it := results.Iter(); it.Next(); {
		var m [5]jsonx.Value
		if !it.Value().IsObject() ||
			it.Value().Fields([]string{"index", "relevance_score", "score", "document", "text"}, m[:]) != nil {
			return nil, false, bad
		}
		score, document := m[1], m[3]
		if !chat.IsGiven(score) {
			score, formed = m[2], false
		}
		if !chat.IsGiven(document) && chat.IsGiven(m[4]) {
			document, formed = m[4], false
		}
		index, whole := m[0].Int()
		value, number := score.Float()
		if !whole || !number || index < 0 || r.Documents > 0 && index >= int64(r.Documents) {
			return nil, false, bad
		}
		if n := len(ranked); n > 0 && ranked[n-1].score < value || document.IsString() || !r.Texts && chat.IsGiven(document) {
			formed = false
		}
		ranked = append(ranked, rankedResult{index, value, score.Raw(), document})
	}
	return ranked, formed, nil
}

func (r *RerankFormat) appendList(dst []byte, ranked []rankedResult) []byte {
	dst = append(dst, '[')
	for i, one := range ranked {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(append(dst, `{"index":`...), one.index, 10)
		dst = append(append(dst, `,"relevance_score":`...), one.raw...)
		switch {
		case !r.Texts || !chat.IsGiven(one.document):
		case one.document.IsString():
			dst = append(append(append(dst, `,"document":{"text":`...), one.document.Raw()...), '}')
		default:
			dst = append(append(dst, `,"document":`...), one.document.Raw()...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// rerankMembers contains the members of a rerank request that have other names in some engines.
type rerankMembers struct {
	documents, returnDocuments jsonx.Value
	asTexts                    bool
}

// SetRerankTexts sets whether the next engine expects texts and return_text instead of documents
// and return_documents.
func (r *Request) SetRerankTexts(is bool) { r.rerankMembers.asTexts = is }

func (m *rerankMembers) renameForTexts(edits *jsonx.Edits) {
	if m.documents.Exists() {
		edits.Rename(m.documents, []byte("texts"))
	}
	for it := m.documents.Iter(); it.Next(); {
		if text := documentText(it.Value()); text != nil {
			edits.Set(it.Value(), text)
		}
	}
	switch {
	case chat.IsGiven(m.returnDocuments):
		edits.Rename(m.returnDocuments, []byte("return_text"))
	case m.returnDocuments.Exists(): // null, which some engines do not treat as false
		edits.Delete(m.returnDocuments)
	}
}

// documentText returns, as JSON, the text of a document that is an object. It returns nil for any
// other document.
func documentText(document jsonx.Value) []byte {
	var d jsonx.Doc
	if !document.IsObject() || d.Parse(document.Raw(), jsonx.Options{}) != nil {
		return nil
	}
	if text := d.Root().Get("text"); text.IsString() {
		return text.Raw()
	}
	return nil
}
