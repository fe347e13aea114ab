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

// VectorForm is the format of embeddings that a client requests. OpenAI's SDKs ask for base64 by
// default and decode any response as base64. SGLang, LM Studio and older Ollama answer with
// numbers. openai-node does not report an error for these numbers, but decodes them to a vector of
// zeros that is a quarter as long.
type VectorForm uint8

// VectorsFloat and VectorsBase64 are OpenAI's values for encoding_format.
const (
	VectorsAsSent VectorForm = iota // as the engine sends them
	VectorsFloat
	VectorsBase64 // base64 of little-endian float32
)

// vectorElementMembers lists the members that change the type of a vector's elements: output_dtype
// (Mistral, Voyage), embed_dtype and endianness (vLLM), embedding_type and embedding_types (Jina,
// Cohere).
var vectorElementMembers = []string{"output_dtype", "embed_dtype", "endianness", "embedding_type", "embedding_types"}

// vectorForm returns the format that the client requested. For elements other than float32, it
// returns VectorsAsSent.
func (r *Request) vectorForm(encoding jsonx.Value) (VectorForm, error) {
	elements := make([]jsonx.Value, len(vectorElementMembers))
	if err := r.Fields(vectorElementMembers, elements); err != nil {
		return VectorsAsSent, err
	}
	switch base64 := encoding.EqualText("base64"); {
	case slices.ContainsFunc(elements, func(v jsonx.Value) bool { return chat.IsGiven(v) && !isDefaultElementMember(v) }):
		return VectorsAsSent, nil
	case base64:
		return VectorsBase64, nil
	}
	return VectorsFloat, nil
}

// isDefaultElementMember reports whether the value of an element member is the default: float32,
// little-endian.
func isDefaultElementMember(v jsonx.Value) bool {
	return v.EqualText("float") || v.EqualText("float32") || v.EqualText("little")
}

const (
	// A float64 has at most 1,075 significant digits. Engines write 17.
	maxNumberBytes = 2 << 10
	// maxVectorBytes is the maximum length of a base64 vector that is rewritten as numbers. It is
	// enough for 24,576 dimensions.
	maxVectorBytes = 128 << 10
)

// vectorRewriter writes the value of one `embedding` in the format that the client requested. It
// rewrites only flat lists of numbers, and base64-encoded float32.
type vectorRewriter struct {
	state            vectorState
	text             []byte
	bits             []byte // float32 bits of a list (not written yet) or of a whole string
	hasOtherElements bool   // the list of numbers contains other elements
}

type vectorState uint8

const (
	vectorStateUnchanged vectorState = iota // passed on unchanged
	vectorStateListStart                    // in a list, before the first element
	vectorStateNumbers
	vectorStateString // in a string, including its opening quote
)

// begin starts a value whose first byte is c. It reports whether the value may have to be
// rewritten.
func (v *vectorRewriter) begin(form VectorForm, c byte) bool {
	v.text, v.bits, v.hasOtherElements = v.text[:0], v.bits[:0], false
	switch {
	case form == VectorsBase64 && c == '[':
		v.state = vectorStateListStart
	case form == VectorsFloat && c == '"':
		v.state = vectorStateString
	default:
		v.state = vectorStateUnchanged
	}
	return v.state != vectorStateUnchanged
}

func (v *vectorRewriter) append(dst, p []byte) []byte {
	if v.state == vectorStateListStart {
		p = v.beginList(p)
		if v.state == vectorStateListStart {
			return dst
		}
		if v.state == vectorStateNumbers {
			dst = append(dst, '"')
		} else {
			dst = append(dst, '[')
		}
	}
	switch v.state {
	case vectorStateNumbers:
		return v.appendNumbers(dst, p)
	case vectorStateString:
		if len(v.text)+len(p) <= maxVectorBytes {
			v.text = append(v.text, p...)
			return dst
		}
		v.state = vectorStateUnchanged
		dst = append(dst, v.text...)
	case vectorStateUnchanged, vectorStateListStart:
	}
	return append(dst, p...)
}

// beginList returns the part of p that starts with the list's first element.
func (v *vectorRewriter) beginList(p []byte) []byte {
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
		v.state = vectorStateUnchanged
		if c == '-' || c == 'n' || '0' <= c && c <= '9' {
			v.state = vectorStateNumbers
		}
		return p[i:]
	}
	return nil
}

// appendNumbers appends the numbers of a list. null means NaN, which JSON cannot represent.
func (v *vectorRewriter) appendNumbers(dst, p []byte) []byte {
	for _, c := range p {
		switch {
		case c == ',' || c == ']' || c == ' ' || c == '\n' || c == '\t' || c == '\r':
			dst = v.appendNumber(dst)
		case c == '[' || c == '{' || c == '"' || c == 't' || c == 'f' || len(v.text) == maxNumberBytes:
			v.hasOtherElements = true
			return dst
		default:
			v.text = append(v.text, c)
		}
	}
	return dst
}

func (v *vectorRewriter) appendNumber(dst []byte) []byte {
	if len(v.text) == 0 {
		return dst
	}
	f := math.NaN()
	if v.text[0] != 'n' {
		// ParseFloat does not retain its argument. A number that is too large for float32 becomes
		// an infinity.
		f, _ = strconv.ParseFloat(unsafe.String(unsafe.SliceData(v.text), len(v.text)), 32) //nolint:gosec // see above
	}
	v.text = v.text[:0]
	v.bits = binary.LittleEndian.AppendUint32(v.bits, math.Float32bits(float32(f)))
	if len(v.bits) == encodeBatchBytes {
		dst, v.bits = base64.StdEncoding.AppendEncode(dst, v.bits), v.bits[:0]
	}
	return dst
}

// encodeBatchBytes is the number of bytes that are encoded at a time. It is a multiple of 4, the
// size of a float32, and of 3, the size of a base64 group.
const encodeBatchBytes = 4 * 3 * 16

func (v *vectorRewriter) end(dst []byte) []byte {
	switch v.state {
	case vectorStateNumbers:
		dst = base64.StdEncoding.AppendEncode(v.appendNumber(dst), v.bits)
		return append(dst, '"')
	case vectorStateString:
		return v.appendFloats(dst)
	case vectorStateUnchanged, vectorStateListStart: // the bracket of an empty list has already been written
	}
	return dst
}

// appendFloats appends the numbers in a base64 string. If the string is not base64-encoded float32,
// appendFloats appends the string unchanged.
func (v *vectorRewriter) appendFloats(dst []byte) []byte {
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

const reasonMixedVector = "an embedding that is not a list of numbers"

func (v *vectorRewriter) err() error {
	if v.hasOtherElements {
		return &translate.BadAnswerError{Reason: reasonMixedVector}
	}
	return nil
}
