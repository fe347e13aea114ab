package observe

import (
	"io"
	"mime"
	"regexp"
	"strconv"
	"strings"
)

// OpenMetricsType is the content type of WriteOpenMetrics's output.
const OpenMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// WriteOpenMetrics writes the metrics page as OpenMetrics 1.0. Unlike in the text format, counter
// families have names without _total, families have units, and an end marker makes a truncated page
// detectable.
func WriteOpenMetrics(w io.Writer, sources ...func(io.Writer)) error {
	return writePage(w, openMetricsHead, formatOpenMetricsBound, "# EOF\n", sources)
}

func openMetricsHead(f *MetricFamily) string {
	name, kind := f.Name, string(f.Kind)
	if f.Kind == KindCounter {
		name = strings.TrimSuffix(name, "_total")
		// If a gauge has the name without _total, keep _total, because two families must not share
		// a name.
		if _, taken := familyKinds[name]; taken {
			name, kind = f.Name, "unknown"
		}
	}
	head := "# TYPE " + name + " " + kind + "\n"
	for _, unit := range []string{"seconds", "bytes", "ratio"} {
		if strings.HasSuffix(name, "_"+unit) {
			head += "# UNIT " + name + " " + unit + "\n"
		}
	}
	return head + "# HELP " + name + " " + labelEscaper.Replace(f.Help) + "\n"
}

// integerBoundPattern matches a bucket bound that is written as an integer.
var integerBoundPattern = regexp.MustCompile(`([{,]le="[0-9]+)("\})`)

// formatOpenMetricsBound rewrites a bucket bound in the number format of OpenMetrics: 1.0, not 1.
func formatOpenMetricsBound(line string) string {
	if !strings.Contains(line, "_bucket{") {
		return line
	}
	return integerBoundPattern.ReplaceAllString(line, "$1.0$2")
}

// PrefersOpenMetrics reports whether an Accept header names OpenMetrics 1.0 and does not prefer the
// text format.
func PrefersOpenMetrics(accept string) bool {
	var open, text float64
	for part := range strings.SplitSeq(accept, ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight := 1.0
		if q, given := params["q"]; given {
			if weight, err = strconv.ParseFloat(q, 64); err != nil || !(weight >= 0 && weight <= 1) {
				continue
			}
		}
		switch version := params["version"]; {
		case kind == "application/openmetrics-text" && (version == "" || version == "1.0.0"):
			open = max(open, weight)
		case kind == "text/plain":
			text = max(text, weight)
		}
	}
	return open > 0 && open >= text
}
