package forward

import (
	"penstock/translate"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// This file checks the members whose types and ranges are the same for every engine.

// DecodeEmbeddings is DecodeNoStream for embeddings. A request may have messages or media instead
// of input.
func (r *Request) DecodeEmbeddings(body []byte) error {
	if err := r.DecodeNoStream(body); err != nil {
		return err
	}
	var m [5]jsonx.Value
	if err := r.Fields([]string{"input", "encoding_format", "dimensions", "user", "content"}, m[:]); err != nil {
		return err
	}
	switch {
	case chat.IsGiven(m[0]):
	case chat.IsGiven(m[4]): // llama.cpp's format; the answer then has a different format
		return apierr.Invalid("input", apierr.CodeMissingParameter, "input is required: content is not read here.")
	case r.onlyHas(m[:]):
		return chat.MissingError("input").Err()
	}
	if e := chat.CheckOptionalString("user", m[3]); e != nil {
		return e.Err()
	}
	if chat.IsGiven(m[0]) && !m[0].IsObject() { // an object contains a chat
		if err := checkTexts("input", m[0]); err != nil {
			return err
		}
	}
	if err := checkEncoding(m[1]); err != nil {
		return err
	}
	if _, err := readIntAtLeast(m[2], "dimensions", 1, 0); err != nil {
		return err
	}
	var err error
	r.Vectors, err = r.vectorForm(m[1])
	return err
}

// DecodePooling is DecodeNoStream for pooling. Responses must be JSON.
func (r *Request) DecodePooling(body []byte) error {
	if err := r.DecodeNoStream(body); err != nil {
		return err
	}
	var m [1]jsonx.Value
	if err := r.Fields([]string{"encoding_format"}, m[:]); err != nil {
		return err
	}
	return checkEncoding(m[0])
}

func checkEncoding(v jsonx.Value) error {
	if chat.IsGiven(v) && !v.EqualText("float") && !v.EqualText("base64") {
		return chat.WrongValueError("encoding_format", "must be float or base64").Err()
	}
	return nil
}

// onlyHas reports whether the request contains only the model and the given members.
func (r *Request) onlyHas(members []jsonx.Value) bool {
	known := 1
	for _, v := range members {
		if v.Exists() {
			known++
		}
	}
	return known == r.doc.Root().Len()
}

// DecodeRerank is DecodeNoStream for rerank. The edge accepts documents only in the documents
// member.
func (r *Request) DecodeRerank(body []byte) error {
	if err := r.DecodeNoStream(body); err != nil {
		return err
	}
	var m [5]jsonx.Value
	if err := r.Fields([]string{"texts", "documents", "top_n", "return_documents", "query"}, m[:]); err != nil {
		return err
	}
	switch {
	case chat.IsGiven(m[0]):
		return chat.UnsupportedError("texts", "is not read here: send documents").Err()
	case !chat.IsGiven(m[4]):
		return chat.MissingError("query").Err()
	case !chat.IsGiven(m[1]):
		return chat.MissingError("documents").Err()
	}
	r.rerankMembers.documents, r.rerankMembers.returnDocuments = m[1], m[3]
	if m[1].IsArray() {
		r.Rerank.Documents = m[1].Len()
	}
	if n, ok := m[2].Int(); ok && n > 0 {
		r.Rerank.Top = int(min(n, 1<<30))
	}
	without, said := m[3].Bool()
	r.Rerank.Texts = !said || without
	return nil
}

// checkTexts accepts one text or an array of texts, each as a string or as tokens. Array elements
// may also be media objects.
func checkTexts(name string, v jsonx.Value) error {
	switch {
	case v.IsString():
		return nil
	case !v.IsArray():
		return chat.InvalidTypeError(name, "must be a string or an array").Err()
	}
	first := v.Index(0)
	if !first.Exists() {
		return chat.WrongValueError(name, "must not be empty").Err()
	}
	want := first.Kind()
	if want == jsonx.Object {
		want = jsonx.String
	}
	for it := v.Iter(); it.Next(); {
		kind := it.Value().Kind()
		if kind == jsonx.Object { // a media object among texts
			kind = jsonx.String
		}
		if kind != want || kind != jsonx.String && kind != jsonx.Number && kind != jsonx.Array {
			return chat.InvalidTypeError(name, "must be a string, or an array whose elements are of one kind: "+
				"strings, tokens, or arrays of tokens").Err()
		}
	}
	return nil
}

// checkCompletion checks the prompt of a completion. It returns best_of, which multiplies the
// engine's work, as n does.
func checkCompletion(prompt, bestOf jsonx.Value, n int) (best int, err error) {
	if !chat.IsGiven(prompt) {
		return 0, chat.MissingError("prompt").Err()
	}
	if err := checkTexts("prompt", prompt); err != nil {
		return 0, err
	}
	best, err = readIntAtLeast(bestOf, "best_of", 1, n)
	if err == nil && best > translate.MaxChoices {
		err = apierr.Invalid("best_of", apierr.CodeInvalidValue, "best_of must be at most %d.", translate.MaxChoices)
	}
	return best, err
}
