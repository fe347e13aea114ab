package compare

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"penstock/bench/result"
)

// Assertion is a condition on a result, such as p99_ttft_ms<500.
type Assertion struct {
	text      string
	key       result.Key
	scope     string // dialect, upstream or stage; empty for the whole run
	scopeName string // name within the scope
	op        string
	limit     float64
}

var assertionOperators = map[string]func(v, limit float64) bool{
	"<":  func(v, limit float64) bool { return v < limit },
	"<=": func(v, limit float64) bool { return v <= limit },
	">":  func(v, limit float64) bool { return v > limit },
	">=": func(v, limit float64) bool { return v >= limit },
	"==": func(v, limit float64) bool { return v == limit },
	"!=": func(v, limit float64) bool { return v != limit },
}

var assertPattern = regexp.MustCompile(`^([^<>=!{]+?)\s*(?:\{\s*(dialect|upstream|stage)\s*=\s*([^}]*[^}\s])\s*\})?\s*(<=|>=|==|!=|<|>)(.*)$`)

// ParseAssert parses MEASURE[{SCOPE=NAME}] OP LIMIT. MEASURE is a flat key of the result file
// (p99_ttft_ms, mean_e2el_ms), with any statistic and percentile, or a rate or count
// (request_throughput, error_rate, stream_faults, …). SCOPE is dialect, upstream or stage. OP is <
// <= > >= == or !=. LIMIT is a number. For latencies it may also be a duration (1.5s), and for
// fractions a percentage (1%).
func ParseAssert(text string) (Assertion, error) {
	a := Assertion{text: strings.TrimSpace(text)}
	m := assertPattern.FindStringSubmatch(a.text)
	if m == nil {
		return a, fmt.Errorf("assertion %q: want MEASURE OP LIMIT, such as p99_ttft_ms<500, OP one of < <= > >= == !=; behind MEASURE perhaps {dialect=NAME}, {upstream=NAME} or {stage=NUMBER}", text)
	}
	a.scope, a.scopeName, a.op = m[2], m[3], m[4]
	var err error
	if a.key, err = result.ParseKey(m[1]); err == nil {
		a.limit, err = a.parseLimit(strings.TrimSpace(m[5]))
	}
	if n, e := strconv.Atoi(a.scopeName); err == nil && a.scope == "stage" && (e != nil || n < 0) {
		err = fmt.Errorf("stage %q is not a number from 0", a.scopeName)
	}
	if err != nil {
		return a, fmt.Errorf("assertion %q: %w", text, err)
	}
	return a, nil
}

func (a *Assertion) parseLimit(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		if share, ok := strings.CutSuffix(s, "%"); ok &&
			(strings.HasSuffix(a.key.Name, "_share") || a.key.Name == "error_rate") {
			v, err = strconv.ParseFloat(strings.TrimSpace(share), 64)
			v /= 100
		} else if d, e := time.ParseDuration(s); e == nil && a.key.Stat != "" {
			v, err = float64(d)/float64(time.Millisecond), nil
		}
	}
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("limit %q is not a number (of latencies milliseconds, or a duration; of shares 0 to 1, or a percentage)", s)
	}
	return v, nil
}

// Check judges a result. If the measure has no value, the assertion fails; otherwise the check
// could pass without checking anything.
func (a Assertion) Check(r *result.Result) result.Assertion {
	out := result.Assertion{Text: a.text}
	v, reason, ok := a.readValue(r)
	if !ok {
		out.Reason = "cannot be judged: " + reason
		return out
	}
	out.Value = &v
	out.OK = assertionOperators[a.op](v, a.limit)
	if !out.OK {
		out.Reason = fmt.Sprintf("%s is %s", a.key, a.key.Format(v))
	}
	return out
}

func (a Assertion) readValue(r *result.Result) (float64, string, bool) {
	p := r.Penstock
	s := &p.Total
	switch a.scope {
	case "dialect":
		s = p.ByDialect[a.scopeName]
	case "upstream":
		s = p.ByUpstream[a.scopeName]
	case "stage":
		s = nil
		if n, err := strconv.Atoi(a.scopeName); err == nil && n < len(p.Stages) {
			s = &p.Stages[n].Summary
		}
	}
	if s == nil {
		return 0, fmt.Sprintf("there is no %s %q in the result", a.scope, a.scopeName), false
	}
	return a.key.FromSummary(s)
}
