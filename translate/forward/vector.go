package forward

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"penstock/translate"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// VectorForm is the format in which a client wants embeddings. OpenAI's SDKs for Node and Python
// ask for base64 by default and read any answer as base64. SGLang, LM Studio and older Ollama do
// not support encoding_format and answer with numbers. openai-node turns the numbers into a quarter
// as many zeros without an error.
type VectorForm uint8

// The formats of a vector. VectorsFloat and VectorsBase64 are the formats that OpenAI defines for
// encoding_format.
const (
	VectorsAsSent VectorForm = iota // as the engine sends them
	VectorsFloat                    // a list of numbers
	VectorsBase64                   // base64 of little-endian float32
)

// elementMembers lists the members that change the type of a vector's elements: output_dtype of
// Mistral and Voyage, embed_dtype and endianness of vLLM, embedding_type and embedding_types of
// Jina and Cohere.
var elementMembers = []string{"output_dtype", "embed_dtype", "endianness", "embedding_type", "embedding_types"}

// vectorForm returns the format that encoding_format requests. Vectors with elements other than
// float32 are not changed.
func (r *Request) vectorForm(encoding jsonx.Value) (VectorForm, error) {
	elements := make([]jsonx.Value, len(elementMembers))
	if err := r.Fields(elementMembers, elements); err != nil {
		return VectorsAsSent, err
	}
	switch base64 := encoding.EqualText("base64"); {
	case slices.ContainsFunc(elements, func(v jsonx.Value) bool { return chat.Given(v) && !namesFloat32(v) }):
		return VectorsAsSent, nil
	case base64:
		return VectorsBase64, nil
	}
	return VectorsFloat, nil
}

// namesFloat32 reports whether the value of an element member is the default: float32,
// little-endian.
func namesFloat32(v jsonx.Value) bool {
	return v.EqualText("float") || v.EqualText("float32") || v.EqualText("little")
}

const (
	// longestNumber is longer than any float in decimal digits. A float64 has at most 1,075
	// significant digits, and engines write 17.
	longestNumber = 2 << 10
	// longestVector is the maximum length of a vector in base64 that is held and rewritten as
	// numbers. It has room for 24,576 dimensions. A longer vector is not changed.
	longestVector = 128 << 10
)

// vector writes the value of one `embedding` in the format that the client requested. The value
// arrives in pieces of JSON that the caller has already checked. Only flat lists of numbers and
// base64 of float32 are rewritten. Several vectors in one list, and anything else, are not changed.
type vector struct {
	state vectorState
	text  []byte // the current number, or the string so far
	bits  []byte // the bits of numbers that are not written yet, or of the whole string
	mixed bool   // the list of numbers contains other elements
}

type vectorState uint8

const (
	vectorKept    vectorState = iota // passed on unchanged
	vectorBegins                     // a list, before its first element
	vectorNumbers                    // a list of numbers
	vectorString                     // a string, from its opening quote
)

// begin prepares for a value whose first byte is c, and reports whether it may need rewriting.
func (v *vector) begin(form VectorForm, c byte) bool {
	v.text, v.bits, v.mixed = v.text[:0], v.bits[:0], false
	switch {
	case form == VectorsBase64 && c == '[':
		v.state = vectorBegins
	case form == VectorsFloat && c == '"':
		v.state = vectorString
	default:
		v.state = vectorKept
	}
	return v.state != vectorKept
}

// append appends a piece of the value, rewritten.
func (v *vector) append(dst, p []byte) []byte {
	if v.state == vectorBegins {
		p = v.beginList(p)
		if v.state == vectorBegins {
			return dst
		}
		if v.state == vectorNumbers {
			dst = append(dst, '"')
		} else {
			dst = append(dst, '[')
		}
	}
	switch v.state {
	case vectorNumbers:
		return v.appendNumbers(dst, p)
	case vectorString:
		if len(v.text)+len(p) <= longestVector {
			v.text = append(v.text, p...)
			return dst
		}
		v.state = vectorKept
		dst = append(dst, v.text...)
	case vectorKept, vectorBegins:
	}
	return append(dst, p...)
}

// beginList looks for the first element of a list and returns p from there on.
func (v *vector) beginList(p []byte) []byte {
	for i, c := range p {
		switch c {
		case '[':
			if len(v.text) == 0 { // the bracket of the list itself
				v.text = append(v.text, c)
				continue
			}
		case ' ', '\n', '\t', '\r':
			continue
		}
		v.text = v.text[:0]
		v.state = vectorKept
		if c == '-' || c == 'n' || '0' <= c && c <= '9' {
			v.state = vectorNumbers
		}
		return p[i:]
	}
	return nil
}

// appendNumbers appends the numbers of a list. null stands for NaN, which JSON cannot write.
func (v *vector) appendNumbers(dst, p []byte) []byte {
	for _, c := range p {
		switch {
		case c == ',' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			dst = v.appendNumber(dst)
		case c == '[' || c == '{' || c == '"' || c == 't' || c == 'f' || len(v.text) == longestNumber:
			v.mixed = true
			return dst
		default:
			v.text = append(v.text, c)
		}
	}
	return dst
}

// appendNumber appends the number that has ended, if there is one.
func (v *vector) appendNumber(dst []byte) []byte {
	if len(v.text) == 0 {
		return dst
	}
	f := math.NaN()
	if v.text[0] != 'n' {
		// ParseFloat keeps no reference to its argument. A number too large for float32 becomes an
		// infinity.
		f, _ = strconv.ParseFloat(unsafe.String(unsafe.SliceData(v.text), len(v.text)), 32) //nolint:gosec // see above
	}
	v.text = v.text[:0]
	v.bits = binary.LittleEndian.AppendUint32(v.bits, math.Float32bits(float32(f)))
	if len(v.bits) == atOnce {
		dst, v.bits = base64.StdEncoding.AppendEncode(dst, v.bits), v.bits[:0]
	}
	return dst
}

// atOnce is the number of bytes that are written as base64 at a time. It consists of whole numbers
// and of whole groups of three bytes.
const atOnce = 4 * 3 * 16

// end appends the rest when the value has ended.
func (v *vector) end(dst []byte) []byte {
	switch v.state {
	case vectorNumbers:
		dst = base64.StdEncoding.AppendEncode(v.appendNumber(dst), v.bits)
		return append(dst, '"')
	case vectorString:
		return v.appendFloats(dst)
	case vectorKept, vectorBegins: // the bracket of an empty list was written already
	}
	return dst
}

// appendFloats appends the list of numbers for a complete string, or the string itself if it is not
// base64 of float32.
func (v *vector) appendFloats(dst []byte) []byte {
	text := v.text[1 : len(v.text)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // some encoders escape the slash
		text = bytes.ReplaceAll(text, []byte(`\/`), []byte(`/`))
	}
	raw, err := base64.StdEncoding.AppendDecode(v.bits[:0], text)
	if v.bits = raw[:0]; err != nil || len(raw)%4 != 0 {
		return append(dst, v.text...)
	}
	dst = append(dst, '[')
	for i := 0; i < len(raw); i += 4 {
		if i > 0 {
			dst = append(dst, ',')
		}
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[i:])))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			dst = append(dst, "null"...)
			continue
		}
		dst = strconv.AppendFloat(dst, f, 'g', -1, 32)
	}
	return append(dst, ']')
}

// mixedVector is the reason in a *translate.BadAnswer for a list of numbers that contains anything
// else.
const mixedVector = "an embedding that is not a list of numbers"

func (v *vector) err() error {
	if v.mixed {
		return &translate.BadAnswer{Reason: mixedVector}
	}
	return nil
}
