package forward

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate"
)

// encodeVector returns the vector as base64-encoded little-endian float32, as defined by OpenAI.
func encodeVector(v ...float32) string {
	var raw []byte
	for _, f := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestVectors(t *testing.T) {
	t.Parallel()
	inf := float32(math.Inf(1))
	long := strings.Repeat("AACAPwAAAMAA", maxVectorBytes/12+1)
	for _, c := range []struct {
		name         string
		vectors      VectorForm
		value, wants string // values of the embedding member
	}{
		{"numbers", VectorsBase64, `[1,-0.5,1e-3,0.10000000149011612]`, `"` + encodeVector(1, -0.5, 1e-3, 0.1) + `"`},
		{"space", VectorsBase64, "[ 1 ,\n-2\t]", `"` + encodeVector(1, -2) + `"`},
		{"one number", VectorsBase64, `[0]`, `"AAAAAA=="`},
		{"thirteen numbers", VectorsBase64, `[1,2,3,4,5,6,7,8,9,10,11,12,13]`, `"` + encodeVector(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13) + `"`},
		{"NaN", VectorsBase64, `[1,null]`, `"` + encodeVector(1, float32(math.NaN())) + `"`},
		{"beyond float32", VectorsBase64, `[1e39,-1e-50]`, `"` + encodeVector(inf, float32(math.Copysign(0, -1))) + `"`},
		{"a long number", VectorsBase64, `[0.` + strings.Repeat("3", 1500) + `]`, `"` + encodeVector(1.0/3) + `"`},
		{"base64 to base64", VectorsBase64, `"AACAPw=="`, `"AACAPw=="`},
		{"several vectors", VectorsBase64, `[[1,2],[3,4]]`, `[[1,2],[3,4]]`},
		{"sparse", VectorsBase64, `[{"index":3,"value":0.5}]`, `[{"index":3,"value":0.5}]`},
		{"empty", VectorsBase64, `[]`, `[]`},
		{"by kind", VectorsBase64, `{"float":[1]}`, `{"float":[1]}`},
		{"null", VectorsBase64, `null`, `null`},

		{"base64", VectorsFloat, `"` + encodeVector(1, -0.5, 1e-7, 0.1, 3e30) + `"`, `[1,-0.5,1e-07,0.1,3e+30]`},
		{"with escapes", VectorsFloat, `"\/wAAAA=="`, `[3.57e-43]`},
		{"NaN in base64", VectorsFloat, `"` + encodeVector(1, float32(math.NaN()), inf) + `"`, `[1,null,null]`},
		{"no bytes", VectorsFloat, `""`, `[]`},
		{"numbers to numbers", VectorsFloat, `[1,-0.50]`, `[1,-0.50]`},
		{"int8 in base64", VectorsFloat, `"AQID"`, `"AQID"`},
		{"no base64", VectorsFloat, `"a vector"`, `"a vector"`},
		{"other escapes", VectorsFloat, `"\u0041ACAPw=="`, `"\u0041ACAPw=="`},
		{"too long to hold", VectorsFloat, `"` + long + `"`, `"` + long + `"`},
		{"several in base64", VectorsFloat, `["AACAPw=="]`, `["AACAPw=="]`},

		{"not asked for", VectorsAsSent, `[1,2]`, `[1,2]`},
		{"nor base64", VectorsAsSent, `"AACAPw=="`, `"AACAPw=="`},
	} {
		around := func(value string) string {
			return `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + value + `},{"embedding" : ` + value + `,"index":1}],"more":[{"embedding":[1]}],"model":"public"}`
		}
		a := Answer{Vectors: c.vectors}
		if err := a.Parse([]byte(around(c.value))); err != nil {
			t.Errorf("%s: Parse = %v, want success", c.name, err)
		} else if got := string(a.Append(nil, "public")); got != around(c.wants) {
			t.Errorf("%s: %.300s, want %.300s", c.name, got, around(c.wants))
		}
		for _, size := range []int{1, 2, 3, 5, 1 << 20} {
			if got, _, err := relayBodyAs(c.vectors, around(c.value), size); err != nil || got != around(c.wants) {
				t.Errorf("%s in pieces of %d: %v, %.300s", c.name, size, err, got)
			}
		}
	}
}

// TestVectors_Mixed checks lists that start with numbers but also contain other elements. Such
// lists cannot be written as base64.
func TestVectors_Mixed(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`[1,[2]]`, `[1,"2"]`, `[1,true]`, `[1,false]`, `[1,{}]`, `[1` + strings.Repeat("0", maxNumberBytes) + `]`} {
		body := `{"data":[{"embedding":` + value + `}]}`
		a := Answer{Vectors: VectorsBase64}
		_, _, piecemeal := relayBodyAs(VectorsBase64, body, 3)
		for _, err := range []error{a.Parse([]byte(body)), piecemeal} {
			var bad *translate.BadAnswerError
			if !errors.As(err, &bad) || bad.Reason != reasonMixedVector {
				t.Errorf("%.20s: got the error %v, want reasonMixedVector", value, err)
			}
		}
	}
}

// TestVectors_RoundTrip checks that any float32 arrives unchanged in both formats, however the text
// is split.
func TestVectors_RoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float32(), 1, 40).Draw(t, "vector")
		sizes := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 5).Draw(t, "sizes")
		numbers := []byte{'['}
		for i, f := range v {
			if i > 0 {
				numbers = append(numbers, ',')
			}
			// As engines in Python write numbers.
			numbers = strconv.AppendFloat(numbers, float64(f), 'g', -1, 64)
		}
		body := `{"data":[{"embedding":` + string(numbers) + `]}]}`
		in64, _, err := relayBodyAs(VectorsBase64, body, sizes...)
		if want := `{"data":[{"embedding":"` + encodeVector(v...) + `"}]}`; err != nil || in64 != want {
			t.Fatalf("%s became %s, %v, want %s", body, in64, err, want)
		}
		back, _, err := relayBodyAs(VectorsFloat, in64, sizes...)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Data []struct{ Embedding []float32 }
		}
		if err := json.Unmarshal([]byte(back), &got); err != nil || encodeVector(got.Data[0].Embedding...) != encodeVector(v...) {
			t.Fatalf("%s became %s, %v, want the same numbers", in64, back, err)
		}
	})
}

// TestVectorForm checks which vector format a request selects.
func TestVectorForm(t *testing.T) {
	t.Parallel()
	for members, want := range map[string]VectorForm{
		``:                            VectorsFloat,
		`,"encoding_format":null`:     VectorsFloat,
		`,"encoding_format":"float"`:  VectorsFloat,
		`,"encoding_format":"base64"`: VectorsBase64,
		`,"encoding_format":"base64","dimensions":8`:         VectorsBase64,
		`,"encoding_format":"base64","output_dtype":"float"`: VectorsBase64,
		`,"encoding_format":"base64","output_dtype":null`:    VectorsBase64,
		`,"encoding_format":"base64","output_dtype":"int8"`:  VectorsAsSent,
		`,"output_dtype":"ubinary"`:                          VectorsAsSent,
		`,"embed_dtype":"float16"`:                           VectorsAsSent,
		`,"embed_dtype":"float32","endianness":"little"`:     VectorsFloat,
		`,"endianness":"big"`:                                VectorsAsSent,
		`,"embedding_type":["float","binary"]`:               VectorsAsSent,
		`,"embedding_types":["int8"]`:                        VectorsAsSent,
	} {
		var r Request
		if err := r.DecodeEmbeddings([]byte(`{"model":"m","input":["a",{"image":"data:image/png;base64,"}]` + members + `}`)); err != nil || r.Vectors != want {
			t.Errorf("%s: %v, %v, want %v", members, r.Vectors, err, want)
		}
	}
}
