package observe

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metrics"
)

func TestPrefersOpenMetrics(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/plain": false, "application/json": false, ";;;": false,
		"application/openmetrics-text":                                                true,
		"Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8":                  true,
		"application/openmetrics-text;version=0.0.1":                                  false,
		"application/openmetrics-text;version=2.0.0":                                  false,
		"application/openmetrics-text;q=0":                                            false,
		"application/openmetrics-text;q=2":                                            false,
		"application/openmetrics-text;q=NaN":                                          false,
		"application/openmetrics-text;q=0.4, text/plain;q=0.5":                        false,
		"application/openmetrics-text;q=0.5, text/plain;q=0.5":                        true,
		"application/openmetrics-text;version=0.0.1;q=0.9,text/plain;version=0.0.4":   false,
		"text/plain;version=0.0.4;q=0.2,*/*;q=0.9,application/openmetrics-text;q=0.6": true,
		"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8":  false,
		// Prometheus 3.
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": true,
	} {
		if got := PrefersOpenMetrics(accept); got != want {
			t.Errorf("PrefersOpenMetrics(%q) = %t, want %t", accept, got, want)
		}
	}
}

// TestOpenMetrics checks that the page equals the text page, except where the formats differ.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	set := metrics.NewSet()
	h := set.NewPrometheusHistogramExt(`penstock_ttft_seconds{model="le=\"1\"}"}`, []float64{.00001, .25, 1, 10})
	h.Update(.5)
	set.NewCounter(`penstock_errors_total{code="a"}`).Add(3)
	gauge := func(w io.Writer) {
		_, _ = io.WriteString(w, "penstock_websocket_connections 2\npenstock_websocket_connections_total 7\n"+
			"penstock_body_memory_bytes 5\npenstock_upstream_kv_usage_ratio{upstream=\"u\"} 0.5\nprocess_cpu_seconds_total 1\n")
	}
	var open, text bytes.Buffer
	if err := WriteOpenMetrics(&open, set.WritePrometheus, gauge); err != nil {
		t.Fatal(err)
	}
	if err := WritePrometheusText(&text, set.WritePrometheus, gauge); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# TYPE penstock_errors counter\n# HELP penstock_errors Requests", "\npenstock_errors_total{code=\"a\"} 3\n",
		"# TYPE penstock_ttft_seconds histogram\n# UNIT penstock_ttft_seconds seconds\n# HELP penstock_ttft_seconds ",
		`penstock_ttft_seconds_bucket{model="le=\"1\"}",le="1.0"} 1`, `penstock_ttft_seconds_bucket{model="le=\"1\"}",le="10.0"} 1`,
		`,le="0.25"} 0`, `,le="1e-05"} 0`, `,le="+Inf"} 1`,
		"# TYPE penstock_websocket_connections gauge\n", "# TYPE penstock_websocket_connections_total unknown\n",
		"# UNIT penstock_body_memory_bytes bytes\n", "# UNIT penstock_upstream_kv_usage_ratio ratio\n",
		"# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n", "\nprocess_cpu_seconds_total 1\n",
	} {
		if !strings.Contains(open.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &open)
		}
	}
	if !strings.HasSuffix(open.String(), "\n# EOF\n") || strings.Count(open.String(), "# EOF") != 1 {
		t.Errorf("the page ends with %q", open.String()[max(0, open.Len()-40):])
	}
	samples := func(page string) (lines []string) {
		for line := range strings.Lines(page) {
			if line[0] != '#' {
				lines = append(lines, strings.Replace(line, `.0"} `, `"} `, 1))
			}
		}
		return lines
	}
	if a, b := strings.Join(samples(open.String()), ""), strings.Join(samples(text.String()), ""); a != b {
		t.Errorf("OpenMetrics has the samples\n%s, and the text format\n%s", a, b)
	}
}

// TestHelpIsEscaped checks that quotes and line breaks in a description are escaped.
func TestHelpIsEscaped(t *testing.T) {
	t.Parallel()
	got := openMetricsHead(&MetricFamily{"a_total", KindCounter, "Says \"x\\y\"\nand more."})
	if want := "# TYPE a counter\n# HELP a Says \\\"x\\\\y\\\"\\nand more.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
