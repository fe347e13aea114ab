package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// TestBounds_Choices checks that the error for too few or too many choices states the limits.
func TestBounds_Choices(t *testing.T) {
	for _, member := range []string{"n", "n_cmpl"} {
		for _, n := range []string{"-1", "0", "129", "1000000"} {
			var e *apierr.Error
			if err := new(Request).Decode([]byte(bodyWith(`"` + member + `":` + n))); !errors.As(err, &e) || e.Message != member+" must be between 1 and 128." {
				t.Errorf("%s = %s: got %v, want the bounds 1 and 128", member, n, e)
			}
		}
	}
}

// TestBounds checks that every member in the table is accepted up to its limit and rejected above
// it, and that no spelling evades the limit.
func TestBounds(t *testing.T) {
	check := func(body string) *InvalidMember {
		var d jsonx.Doc
		if err := d.Parse([]byte(body), jsonx.Options{}); err != nil {
			t.Fatal(err)
		}
		return CheckBounds(d.Root())
	}
	list := func(element string, n int) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	object := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	for _, b := range memberBounds {
		// Each value, and whether it is accepted.
		values := map[string]bool{`null`: true, `""`: true, `[]`: true, `{}`: true, `true`: true, `0.5`: true}
		if b.maxElements > 0 {
			values[list(`1`, b.maxElements)], values[list(`1`, b.maxElements+1)] = true, false
			values[object(b.maxElements)], values[object(b.maxElements+1)] = true, false
			values[strings.ReplaceAll(list(`1`, b.maxElements), ",", ",\n ")] = true
		}
		if b.maxBytes > 0 {
			values[`"`+strings.Repeat("1", b.maxBytes-2)+`"`], values[`"`+strings.Repeat("1", b.maxBytes-1)+`"`] = true, false
			values[list(`"`+strings.Repeat("a", b.maxBytes/2)+`"`, 2)] = false
		}
		if b.maxValue > 0 {
			values[fmt.Sprint(b.maxValue)], values[fmt.Sprint(b.maxValue+1)], values[`-1`], values[`1e9`] = true, false, false, false
		}
		for value, passes := range values {
			member := `"` + b.name + `":` + value
			escaped := fmt.Sprintf(`"\u%04x%s":%s`, b.name[0], b.name[1:], value)
			if outer, inner, nested := strings.Cut(b.name, "."); nested {
				member = `"` + outer + `":{"` + inner + `":` + value + `}`
				escaped = member
			}
			for _, body := range []string{`{"a":1,` + member + `}`, `{` + escaped + `}`, `{"sampling_params":{` + member + `}}`} {
				if e := check(body); (e == nil) != passes || e != nil && (strings.TrimPrefix(e.Param, "sampling_params.") != b.name || e.Code != apierr.CodeInvalidValue) {
					t.Errorf("%.80s (%d bytes): got %v, want success %v or an error at %s", body, len(body), e, passes, b.name)
				}
			}
		}
	}
	long := `"` + strings.Repeat("a", 300<<10) + `"`
	for body, param := range map[string]string{
		`{"grammar":"a","grammar":` + long + `}`:                            "grammar",
		`{"grammar":` + long + `,"grammar":"a"}`:                            "grammar",
		`{"n_cmpl":100000}`:                                                 "n_cmpl",
		`{"sampling_params":[{"n":100000}],"Sampling_params":{"n":100000}}`: "sampling_params.n",
		`{"sampling_params":{"a":{"n":100000}}}`:                            "",
		`{"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[` + strings.Repeat(`{"type":"function"},`, 100_000) + `{}]}}}`: "tool_choice",
		`{"Grammar":` + long + `}`:                                                "grammar",
		`{"structured_outputs":{"grammar":"a","Grammar":` + long + `}}`:           "structured_outputs.grammar",
		`{"structured_outputs":{},"Structured_Outputs":{"grammar":` + long + `}}`: "structured_outputs.grammar",
		`{"structured_outputs":` + long + `,"other":` + long + `}`:                "",
	} {
		if e := check(body); (e == nil) != (param == "") || e != nil && e.Param != param {
			t.Errorf("%.60s: got %v, want an error at %q", body, e, param)
		}
	}
}
