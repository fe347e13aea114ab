package e2e

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"penstock/proxy/e2e/rig"
)

// openMetricsFamily is the metadata of a family. It precedes the family's samples.
type openMetricsFamily struct {
	kind, unit, help string
	sampled, closed  bool
}

// openMetricsSuffixes maps a family type to the suffixes of its sample names.
var openMetricsSuffixes = map[string][]string{
	"counter": {"_total"}, "gauge": {""}, "unknown": {""}, "histogram": {"_bucket", "_sum", "_count"},
}

var (
	openMetricsName  = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	openMetricsLine  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? ([^ ]+)$`)
	openMetricsBound = regexp.MustCompile(`(?:^|,)le="([^"]*)"$`)
	unescapedHelp    = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*"|\\[^\\"n]`)
)

// lintOpenMetrics returns violations of the OpenMetrics 1.0 text format. It checks the end mark,
// suffixes, units and canonical bounds. Each family must have a distinct name, its series must be
// contiguous, and its metadata must occur only once and before its samples.
func lintOpenMetrics(page string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	page, ended := strings.CutSuffix(page, "# EOF\n")
	if !ended || page != "" && !strings.HasSuffix(page, "\n") {
		bad("the page does not end with # EOF")
	}
	families, samples, current := map[string]*openMetricsFamily{}, map[string]bool{}, ""
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			words := strings.SplitN(line, " ", 4)
			if len(words) != 4 || words[0] != "#" || !openMetricsName.MatchString(words[2]) {
				bad("no metadata: %q", line)
				continue
			}
			name, told := words[2], words[3]
			f := families[name]
			if f == nil {
				f = &openMetricsFamily{}
				families[name] = f
			}
			if current != name && families[current] != nil {
				families[current].closed = true
			}
			if current = name; f.sampled || f.closed {
				bad("%s: metadata behind samples, or in two places", name)
			}
			f.setMetadata(words[1], name, told, bad)
			continue
		}
		m := openMetricsLine.FindStringSubmatch(line)
		if m == nil {
			bad("no sample: %q", line)
			continue
		}
		if samples[m[1]+m[2]] {
			bad("twice: %q", line)
		}
		samples[m[1]+m[2]] = true
		f := families[current]
		if f == nil || !slices.ContainsFunc(openMetricsSuffixes[f.kind], func(end string) bool { return m[1] == current+end }) {
			bad("%s is no sample of the family before it, %s", m[1], current)
			continue
		}
		f.sampled = true
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil || f.kind == "counter" && value < 0 {
			bad("%s: value %q", m[1], m[3])
		}
		if strings.HasSuffix(m[1], "_bucket") && f.kind == "histogram" {
			if le := openMetricsBound.FindStringSubmatch(m[2]); le == nil || !canonical(le[1]) {
				bad("%s: bound in %q", m[1], m[2])
			}
		}
	}
	for name, f := range families {
		if f.kind == "" || f.help == "" || !f.sampled {
			bad("%s: no type, no help or no sample", name)
		}
		if f.kind == "counter" && families[name+"_total"] != nil {
			bad("%s: its samples have the name of another family", name)
		}
	}
	return problems
}

func (f *openMetricsFamily) setMetadata(what, name, told string, bad func(format string, args ...any)) {
	into := map[string]*string{"TYPE": &f.kind, "UNIT": &f.unit, "HELP": &f.help}[what]
	switch {
	case into == nil:
		bad("%s: %s", name, what)
		return
	case *into != "":
		bad("%s: %s twice", name, what)
	case what == "TYPE" && openMetricsSuffixes[told] == nil:
		bad("%s: type %q", name, told)
	case what == "TYPE" && told == "counter" && strings.HasSuffix(name, "_total"):
		bad("%s: a counter's family is named without _total", name)
	case what == "UNIT" && !strings.HasSuffix(name, "_"+told):
		bad("%s: unit %q", name, told)
	case what == "HELP" && unescapedHelp.MatchString(told):
		bad("%s: help %q", name, told)
	}
	*into = told
}

func canonical(bound string) bool {
	v, err := strconv.ParseFloat(bound, 64)
	want := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(want, ".eI") {
		want += ".0"
	}
	return err == nil && bound == want
}

func TestOpenMetricsLintFindsFaults(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"# TYPE a gauge\n# HELP a Some.\na 1\n":                                                                 "# EOF",
		"# TYPE a gauge\n# HELP a Some.\na 1\n# EOF\na 1\n":                                                     "# EOF",
		"# TYPE a_total counter\n# HELP a_total Some.\na_total 1\n# EOF\n":                                      "without _total",
		"# TYPE a counter\n# HELP a Some.\na 1\n# EOF\n":                                                        "no sample of",
		"# TYPE a gauge\n# HELP a Some.\n# TYPE a gauge\na 1\n# EOF\n":                                          "TYPE twice",
		"# TYPE a gauge\na 1\n# HELP a Some.\n# EOF\n":                                                          "behind samples",
		"# TYPE a gauge\n# UNIT a seconds\n# HELP a Some.\na 1\n# EOF\n":                                        "unit",
		"# TYPE a gauge\n# HELP a \"Some\".\na 1\n# EOF\n":                                                      "help",
		"# TYPE a gauge\n# HELP a Some.\na{x=\"\\t\"} 1\n# EOF\n":                                               "no sample: ",
		"# TYPE a gauge\n# HELP a Some.\na 1\na 2\n# EOF\n":                                                     "twice",
		"# TYPE a counter\n# HELP a Some.\na_total -1\n# EOF\n":                                                 "value",
		"# TYPE a histogram\n# HELP a Some.\na_bucket{le=\"1\"} 1\n# EOF\n":                                     "bound",
		"# TYPE a counter\n# HELP a S.\na_total 1\n# TYPE a_total gauge\n# HELP a_total S.\na_total 1\n# EOF\n": "another family",
		"# TYPE a gauge\n# HELP a Some.\n# EOF\n":                                                               "no sample",
	} {
		if got := strings.Join(lintOpenMetrics(page), "; "); !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// wantOpenMetrics requests the page as Prometheus does, and lints it.
func wantOpenMetrics(t *testing.T, p *penstock) {
	t.Helper()
	res := p.adminDo("GET", "/metrics", "", "",
		"Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
	page, err := io.ReadAll(res.Body)
	if kind := res.Header.Get("Content-Type"); err != nil || kind != "application/openmetrics-text; version=1.0.0; charset=utf-8" {
		t.Fatalf("Content-Type = %q, %v; want OpenMetrics 1.0.0", kind, err)
	}
	for _, problem := range lintOpenMetrics(string(page)) {
		t.Error(problem)
	}
	families := regexp.MustCompile(`(?m)^# HELP `)
	if open, text := len(families.FindAllIndex(page, -1)), len(families.FindAllString(p.MetricsText(), -1)); open != text || open < 30 {
		t.Errorf("%d families, and %d in the text format", open, text)
	}
}

// TestOpenMetricsIsAskedFor checks that a scraper that does not accept OpenMetrics receives the
// text format.
func TestOpenMetricsIsAskedFor(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for _, accept := range []string{"Accept: */*", "Accept: text/plain", "User-Agent: curl"} {
		res := p.adminDo("GET", "/metrics", "", "", accept)
		page, err := io.ReadAll(res.Body)
		if kind := res.Header.Get("Content-Type"); err != nil || kind != "text/plain; version=0.0.4; charset=utf-8" || strings.Contains(string(page), "# EOF") {
			t.Errorf("accept %s: Content-Type = %q, %v; want text 0.0.4 without # EOF", accept, kind, err)
		}
	}
	wantOpenMetrics(t, p)
}
