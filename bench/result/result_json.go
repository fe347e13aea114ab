package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Rate is a number that may be infinite. In JSON, infinity is "inf".
type Rate float64

// MarshalJSON implements json.Marshaler.
func (r Rate) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(r), 0) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON implements json.Unmarshaler. It reads null as infinity.
func (r *Rate) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` || string(b) == "null" {
		*r = Rate(math.Inf(1))
		return nil
	}
	return json.Unmarshal(b, (*float64)(r))
}

// flatResult is Result without its methods.
type flatResult Result

// StatisticPattern matches the keys of Result.Measures.
var StatisticPattern = regexp.MustCompile(`^(mean|median|std|p[0-9]+(\.[0-9]+)?)_.+_ms$`)

// MarshalJSON writes the flat object: the fixed members, the metadata, the statistics ordered by
// name, and finally "penstock".
func (r *Result) MarshalJSON() ([]byte, error) {
	fixed, err := json.Marshal((*flatResult)(r))
	if err != nil {
		return nil, err
	}
	tail := bytes.LastIndex(fixed, []byte(`,"penstock":`))
	var b bytes.Buffer
	b.Write(fixed[:tail])
	add := func(name string, v any) {
		value, e := json.Marshal(v)
		key, e2 := json.Marshal(name)
		if e != nil || e2 != nil {
			err = errors.Join(err, e, e2)
		}
		fmt.Fprintf(&b, ",%s:%s", key, value)
	}
	for _, k := range slices.Sorted(maps.Keys(r.Metadata)) {
		add(k, r.Metadata[k])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Measures)) {
		add(k, r.Measures[k])
	}
	b.Write(fixed[tail:])
	return b.Bytes(), err
}

// UnmarshalJSON also reads vLLM's files. Unknown string members become Metadata, and other unknown
// members are dropped.
func (r *Result) UnmarshalJSON(b []byte) error {
	*r = Result{}
	if err := json.Unmarshal(b, (*flatResult)(r)); err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for k, raw := range all {
		if FixedMembers[k] {
			continue
		}
		if StatisticPattern.MatchString(k) {
			var v *float64
			if err := json.Unmarshal(raw, &v); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			if r.Measures == nil {
				r.Measures = map[string]*float64{}
			}
			r.Measures[k] = v
			continue
		}
		var s string
		if raw[0] == '"' && json.Unmarshal(raw, &s) == nil {
			if r.Metadata == nil {
				r.Metadata = map[string]string{}
			}
			r.Metadata[k] = s
		}
	}
	return nil
}

// FixedMembers contains the top-level names that are fields of Result.
var FixedMembers = func() map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[flatResult]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = name != "-"
	}
	return names
}()

// ReadResult reads a result file. Its error contains the path.
func ReadResult(path string) (*Result, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := new(Result)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	if r.Penstock == nil {
		return nil, fmt.Errorf("%s is from another tool: it has flat numbers only, without the histograms that intervals and plots are made of", path)
	}
	return r, nil
}

// Write writes the result as one line.
func (r *Result) Write(w io.Writer) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
