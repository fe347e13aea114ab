package engine

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"penstock/config"
	"penstock/upstreams/http1"
)

var vllmLoad = config.EngineLoad{
	Path:    "/metrics",
	Running: []string{"vllm:num_requests_running", "vllm:omni_num_requests_running"},
	Waiting: []string{"vllm:num_requests_waiting"},
	KVUsage: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},

	Progress: []string{"steps", "tokens"},
}

func TestScanMetrics(t *testing.T) {
	for _, c := range []struct {
		name, page string
		want       EngineLoad
		ok         bool
	}{
		{"empty", "", EngineLoad{}, false},
		{"nothing of ours", "up 1\nvllm:num_requests_running_total 7\n", EngineLoad{}, false},
		{"bare, no final newline", "vllm:num_requests_running 3", EngineLoad{Running: 3}, true},
		{"labels that hold braces and quotes", "vllm:num_requests_running{a=\"}\\\"{\",b=\"x y\"} 2 1700000000\n", EngineLoad{Running: 2}, true},
		{"series are added", "vllm:num_requests_running{e=\"0\"} 2\nvllm:num_requests_running{e=\"1\"} 3\nvllm:num_requests_waiting 4\n", EngineLoad{Running: 5, Waiting: 4, Queue: true}, true},
		{"ratios are averaged", "vllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc{e=\"0\"} 0.2\nvllm:kv_cache_usage_perc{e=\"1\"} 0.4\n", EngineLoad{KVUsage: 0.30000000000000004, Queue: true}, true},
		{"the better alias wins, whatever the order", "vllm:gpu_cache_usage_perc 0.9\nvllm:num_requests_running 1\nvllm:kv_cache_usage_perc 0.1\nvllm:gpu_cache_usage_perc 0.9\n", EngineLoad{Running: 1, KVUsage: 0.1}, true},
		{"an alias stands in", "vllm:omni_num_requests_running 6\n", EngineLoad{Running: 6}, true},
		{"no number", "vllm:num_requests_running NaN\nvllm:num_requests_waiting +Inf\n", EngineLoad{}, false},
		{"negative", "vllm:num_requests_running -1\n", EngineLoad{}, false},
		{"absurd", "vllm:num_requests_running 1e300\n", EngineLoad{Running: 1 << 30}, true},
		{"labels without an end", "vllm:num_requests_running{a=\"b\nvllm:num_requests_waiting 2\n", EngineLoad{Waiting: 2, Queue: true}, true},
		{"comments", "# vllm:num_requests_running 9\n\n#\n", EngineLoad{}, false},
		{"empty lines", "\n\nvllm:num_requests_running 2\n\nvllm:num_requests_waiting 1\n", EngineLoad{Running: 2, Waiting: 1, Queue: true}, true},
		{"counters are added, of all engines", "vllm:num_requests_running 2\nsteps{e=\"0\"} 5\nsteps{e=\"1\"} 7\ntokens 100\ntokens_created 1.7e9\n", EngineLoad{Running: 2, Counts: true, Progress: 112}, true},
		{"counters alone", "steps 5\n", EngineLoad{Counts: true, Progress: 5}, false},
		{"carriage returns", "vllm:num_requests_running 2\r\n", EngineLoad{Running: 2}, true},
	} {
		if got, ok := scanMetrics(&vllmLoad, []byte(c.page)); got != c.want || ok != c.ok {
			t.Errorf("%s: got %+v %t, want %+v %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

func TestReadLoadJSON(t *testing.T) {
	slots := config.EngineLoad{Path: "/slots", Running: []string{"*.is_processing"}}
	if r, ok := readLoad(&slots, []byte(`[{"is_processing":true},{"is_processing":false},{"is_processing":true}]`)); !ok || r.Running != 2 {
		t.Errorf("readLoad = %+v, %t; want 2 running", r, ok)
	}
	if r, ok := readLoad(&slots, []byte(`[{"is_processing":false}]`)); !ok || r.Running != 0 {
		t.Errorf("idle slots: %+v %t", r, ok)
	}
	slots.Progress = []string{"*.n_prompt_tokens_processed", "*.next_token.*.n_decoded"}
	page := `[{"is_processing":true,"n_prompt_tokens_processed":30,"next_token":[{"n_decoded":7}]},{"is_processing":false}]`
	if r, _ := readLoad(&slots, []byte(page)); !r.Counts || r.Progress != 37 || r.Queue {
		t.Errorf("slots that count: %+v", r)
	}
	for _, page := range []string{"", "{", "{}", "null", `[{"is_processing":"yes"}]`} {
		if _, ok := readLoad(&slots, []byte(page)); ok {
			t.Errorf("readLoad(%q) succeeds, want a refusal", page)
		}
	}
}

// TestReadLoadForm checks that the beginning of a page determines whether it is read as JSON or
// Prometheus text.
func TestReadLoadForm(t *testing.T) {
	source := config.EngineLoad{Path: "/load", Running: []string{"running"}}
	for _, page := range []string{"running 3\n", "\n# HELP running Calls.\nrunning 3\n", `{"running":3}`, "\r\n {\"running\":3}"} {
		if r, ok := readLoad(&source, []byte(page)); !ok || r.Running != 3 {
			t.Errorf("readLoad(%q) = %+v, %t; want 3 running", page, r, ok)
		}
	}
}

// reference reads the same page in a slow, simple way.
func reference(names []string, page string) (sum float64, n int) {
	for _, name := range names {
		line := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}[ \t]*|[ \t]+)([^ \t\r]+)(?:[ \t\r].*)?$`)
		for l := range strings.SplitSeq(page, "\n") {
			if m := line.FindStringSubmatch(l); m != nil && len(m[1]) <= 32 {
				if v, err := strconv.ParseFloat(m[1], 64); err == nil && v >= 0 && v < 1e308 {
					sum += v
					n++
				}
			}
		}
		if n > 0 {
			return sum, n
		}
	}
	return 0, 0
}

func FuzzScanMetrics(f *testing.F) {
	f.Add("vllm:num_requests_running{engine=\"0\",model_name=\"org/m{odd}\"} 3.0\nvllm:num_requests_waiting 1\n")
	f.Add("vllm:num_requests_running{a=\"\\\\\"} 1 17\r\n# x\nvllm:omni_num_requests_running\t2")
	f.Fuzz(func(t *testing.T, page string) {
		if strings.ContainsFunc(page, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' || r > '~' }) {
			t.Skip() // the pattern treats invalid UTF-8 differently
		}
		got, _ := scanMetrics(&vllmLoad, []byte(page))
		running, _ := reference(vllmLoad.Running, page)
		if want := clampCount(running); got.Running != want {
			t.Errorf("running %d, want %d", got.Running, want)
		}
		if got.KVUsage < 0 || got.KVUsage > 1 || got.Waiting < 0 {
			t.Errorf("out of range: %+v", got)
		}
	})
}

// FuzzFields reads the fields of every bundled profile from arbitrary pages. No page may cause a
// panic or a count that is out of range.
func FuzzFields(f *testing.F) {
	files, _ := os.ReadDir("testdata/engines")
	for _, file := range files {
		src, _ := os.ReadFile("testdata/engines/" + file.Name())
		for _, part := range txtar.Parse(src).Files {
			f.Add(part.Data)
		}
	}
	f.Add([]byte(`{"loads":{"x":[{"num_running_reqs":-1e400}]},"data":[1,null,{"id":[]},{"id":"a","aliases":{"b":"c"}}]}`))
	profiles := mustProfiles(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		content, err := parseJSON(body)
		if err != nil {
			return
		}
		for _, p := range profiles.All() {
			var infos []ModelInfo
			for i := range p.spec.Models {
				infos = addModels(infos, &p.spec.Models[i], content, i == 0)
			}
			for _, m := range infos {
				if m.ID == "" || m.Context < 0 {
					t.Errorf("%s: model %+v, want an ID and no negative context", p.Name(), m)
				}
			}
			NewModelList(infos, nil).Serves(p, "a")
			for i := range p.spec.Load {
				if r, _ := readLoad(&p.spec.Load[i], body); r.Running < 0 || r.Waiting < 0 || r.KVUsage < 0 || r.KVUsage > 1 {
					t.Errorf("%s: load %+v, want no negative count and a cache usage from 0 to 1", p.Name(), r)
				}
			}
			for i := range p.spec.Detect {
				matchesSign(&p.spec.Detect[i], &http1.Page{Status: 200, Body: body})
			}
		}
	})
}

func BenchmarkScanMetrics(b *testing.B) {
	line := "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"0.001\",model_name=\"org/some-model\"} 12345.0\n"
	page := []byte(strings.Repeat(line, 1000) + "vllm:num_requests_running{engine=\"0\",model_name=\"org/some-model\"} 7.0\n")
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if r, ok := scanMetrics(&vllmLoad, page); !ok || r.Running != 7 {
			b.Fatal(r)
		}
	}
}
