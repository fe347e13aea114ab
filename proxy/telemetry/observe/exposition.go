package observe

import (
	"bytes"
	"io"
	"strings"
)

// metricPrefix is the prefix of the edge's metrics. Other metrics come from the runtime.
const metricPrefix = "penstock_"

// WritePrometheusText writes the metrics page in the Prometheus text format. Each family appears
// once, with HELP and TYPE before the samples from all sources. Runtime metrics that are not in the
// table of families are omitted.
func WritePrometheusText(w io.Writer, sources ...func(io.Writer)) error {
	return writePage(w, prometheusHead, func(line string) string { return line }, "", sources)
}

func prometheusHead(f *MetricFamily) string {
	return "# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + string(f.Kind) + "\n"
}

// writePage writes each family's head and samples, and then the text in end.
func writePage(w io.Writer, head func(*MetricFamily) string, sample func(string) string, end string,
	sources []func(io.Writer),
) error {
	var raw bytes.Buffer
	for _, write := range sources {
		write(&raw)
	}
	samples := map[string][]string{}
	var undescribed []string
	for line := range strings.Lines(raw.String()) {
		family := familyName(line)
		if family == "" {
			if strings.HasPrefix(line, metricPrefix) {
				undescribed = append(undescribed, line)
			}
			continue
		}
		samples[family] = append(samples[family], line)
	}
	var page bytes.Buffer
	for i := range metricFamilies {
		f := &metricFamilies[i]
		lines := samples[f.Name]
		if len(lines) == 0 {
			continue
		}
		page.WriteString(head(f))
		for _, line := range lines {
			page.WriteString(sample(line))
		}
	}
	for _, line := range undescribed {
		page.WriteString(line)
	}
	page.WriteString(end)
	_, err := w.Write(page.Bytes())
	return err
}

var familyKinds = func() map[string]MetricKind {
	out := make(map[string]MetricKind, len(metricFamilies))
	for _, f := range metricFamilies {
		out[f.Name] = f.Kind
	}
	return out
}()

func familyName(line string) string {
	name := line[:max(0, strings.IndexAny(line, "{ "))]
	if kind, ok := familyKinds[name]; ok && kind != KindHistogram {
		return name
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && familyKinds[base] == KindHistogram {
			return base
		}
	}
	return ""
}

// AppendSample appends one line of the text format. pairs alternates between label names and
// values.
func AppendSample(b *bytes.Buffer, name string, value string, pairs ...string) {
	b.WriteString(name)
	if len(pairs) > 0 {
		b.WriteString(formatLabels(pairs...))
	}
	b.WriteString(" " + value + "\n")
}
