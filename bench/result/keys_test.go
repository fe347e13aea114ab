package result_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"penstock/bench/benchtest"
	"penstock/bench/result"
)

func TestResultKeys(t *testing.T) {
	var b bytes.Buffer
	r := benchtest.SampleResult()
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	benchtest.CheckSchema(t, b.Bytes())
	for _, want := range []string{`"request_rate":"inf"`, `"p99_ttft_ms":12.5`, `"p99.9_itl_ms":null`, `"gpu":"none"`, `"request_goodput":null`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in the file", want)
		}
	}
	var again result.Result
	if err := json.Unmarshal(b.Bytes(), &again); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, &again); d != "" {
		t.Error(d)
	}
}
