package engine

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"penstock/config"
)

// EngineLoad is an engine's reported load.
type EngineLoad struct {
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`
	KVUsage float64 `json:"kv_usage"` // used share of the KV cache, 0 to 1

	Queue    bool    `json:"-"` // the engine reports Waiting
	Counts   bool    `json:"-"` // the engine reports Progress
	Progress float64 `json:"-"` // sum of the counters that increase while the engine works

	Adapters *Adapters `json:"adapters,omitempty"` // nil if unknown

	// CacheTokens is how many prompt tokens fit in the cache, or 0 if not reported.
	CacheTokens int `json:"cache_tokens,omitempty"`
}

// Adapters describes the adapters (LoRA) in use at an engine.
type Adapters struct {
	Most       int      `json:"most"` // maximum number of adapters in use at a time
	InUse      []string `json:"in_use"`
	reportedAt float64  // time of the report
}

// parseNewerAdapters reads a sample whose labels contain the adapters and whose value is a time. It
// returns this sample or newest, whichever is newer.
func parseNewerAdapters(labels []byte, newest *Adapters) *Adapters {
	at, ok := sampleValue(labels)
	most, err := strconv.Atoi(labelValue(labels, "max_lora"))
	if !ok || err != nil || newest != nil && at <= newest.reportedAt {
		return newest
	}
	a := &Adapters{Most: clampCount(float64(most)), reportedAt: at}
	for _, label := range []string{"running_lora_adapters", "waiting_lora_adapters"} {
		for name := range strings.SplitSeq(labelValue(labels, label), ",") {
			if name != "" && len(a.InUse) < maxListedModels {
				a.InUse = append(a.InUse, name)
			}
		}
	}
	return a
}

// labelValue returns a label's value, up to the first quote.
func labelValue(labels []byte, label string) string {
	for _, before := range []string{"{", ","} {
		if _, rest, ok := bytes.Cut(labels, []byte(before+label+`="`)); ok {
			value, _, _ := bytes.Cut(rest, []byte(`"`))
			return string(value)
		}
	}
	return ""
}

// hasRequestCount reports whether the page contained the number of running requests (running) or of
// waiting requests.
func (l *EngineLoad) hasRequestCount(running bool) bool { return running || l.Queue }

// readLoad reads a load page, in JSON or Prometheus text, as described by source. It returns false
// if the page contains neither the number of running requests nor the number of waiting requests.
func readLoad(source *config.EngineLoad, body []byte) (EngineLoad, bool) {
	if page := bytes.TrimLeft(body, " \t\r\n"); len(page) == 0 || page[0] != '{' && page[0] != '[' {
		return scanMetrics(source, body)
	}
	page, err := parseJSON(body)
	if err != nil {
		return EngineLoad{}, false
	}
	running, a := readFirstField(page, source.Running, sumField)
	waiting, b := readFirstField(page, source.Waiting, sumField)
	usage, _ := readFirstField(page, source.KVUsage, meanField)
	l := EngineLoad{Running: clampCount(running), Waiting: clampCount(waiting), KVUsage: min(1, max(0, usage)), Queue: b}
	room, _ := readFirstField(page, source.Cache, sumField)
	l.CacheTokens = clampTokens(room)
	for _, field := range source.Progress {
		if v, ok := sumField(page, field); ok {
			l.Progress, l.Counts = l.Progress+v, true
		}
	}
	return l, l.hasRequestCount(a)
}

// scanMetrics reads the configured samples from a page of Prometheus text. It does not copy or
// allocate, because a metrics page has 100 KB or more and is read every few seconds. It sums all
// series with the same name, and skips invalid lines, because a report is only a hint.
func scanMetrics(source *config.EngineLoad, body []byte) (EngineLoad, bool) {
	var r EngineLoad
	var totals [3]metricTotal
	var room metricTotal
	for len(body) > 0 {
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		name := metricName(line)
		if source.Adapters != "" && string(name) == source.Adapters {
			r.Adapters = parseNewerAdapters(line[len(name):], r.Adapters)
			continue
		}
		for _, want := range source.Progress {
			if string(name) == want {
				if v, ok := sampleValue(line[len(name):]); ok {
					r.Progress, r.Counts = r.Progress+v, true
				}
			}
		}
		for rank, want := range source.Cache {
			if string(name) == want {
				if v, ok := parseCacheTokens(line[len(name):]); ok {
					room.add(v, rank)
				}
			}
		}
		for i, names := range [...][]string{source.Running, source.Waiting, source.KVUsage} {
			for rank, want := range names {
				if string(name) == want {
					if v, ok := sampleValue(line[len(name):]); ok {
						totals[i].add(v, rank)
					}
				}
			}
		}
	}
	r.Running, r.Waiting, r.Queue = clampCount(totals[0].sum), clampCount(totals[1].sum), totals[1].n > 0
	r.CacheTokens = clampTokens(room.sum)
	if totals[2].n > 0 {
		r.KVUsage = min(1, totals[2].sum/float64(totals[2].n))
	}
	return r, r.hasRequestCount(totals[0].n > 0)
}

// parseCacheTokens returns a cache size in tokens. The labels of vLLM's cache_config_info contain the
// size, whereas the value of SGLang's max_total_num_tokens is the size.
func parseCacheTokens(labels []byte) (float64, bool) {
	blocks, err := strconv.ParseFloat(labelValue(labels, "num_gpu_blocks"), 64)
	size, err2 := strconv.ParseFloat(labelValue(labels, "block_size"), 64)
	if err == nil && err2 == nil {
		return blocks * size, blocks*size >= 0
	}
	return sampleValue(labels)
}

func clampTokens(n float64) int {
	if !(n > 0) { // also rejects NaN
		return 0
	}
	return int(min(n, 1<<40))
}

// metricTotal adds up the samples of one metric. If the source lists aliases, only the first alias
// that the page contains counts.
type metricTotal struct {
	sum  float64
	n    int
	rank int
}

func (t *metricTotal) add(v float64, rank int) {
	switch {
	case t.n == 0 || rank < t.rank:
		*t = metricTotal{v, 1, rank}
	case rank == t.rank:
		t.sum += v
		t.n++
	}
}

// metricName returns the part of a sample line before its labels or value.
func metricName(line []byte) []byte {
	for i, c := range line {
		if c == '{' || c == ' ' || c == '\t' {
			return line[:i]
		}
	}
	return line
}

// sampleValue reads the value in the part of a sample line after the name. Labels in braces and
// spaces may precede the value, and a timestamp may follow it. It rejects negative numbers and NaN,
// because every configured sample is a count.
func sampleValue(rest []byte) (float64, bool) {
	if len(rest) > 0 && rest[0] == '{' {
		end := labelsEnd(rest)
		if end < 0 {
			return 0, false
		}
		rest = rest[end:]
	}
	rest = bytes.TrimLeft(rest, " \t")
	if i := bytes.IndexAny(rest, " \t\r"); i >= 0 {
		rest = rest[:i]
	}
	if len(rest) == 0 || len(rest) > 32 {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(rest), 64) // at most 32 bytes, so the copy stays on the stack
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, false
	}
	return v, true
}

// labelsEnd returns the index after the closing brace, or -1. It ignores braces in quoted values.
func labelsEnd(s []byte) int {
	quoted := false
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}
