package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"penstock/bench/result"
)

// Loads count as different if they differ by more than these factors.
const (
	maxLengthRatio   = 1.10 // mean tokens per request
	maxDurationRatio = 2.0  // wall time
)

// comparabilityNotes describes differences between the measured loads, and other reasons why two
// results are hard to compare.
func comparabilityNotes(a, b *result.Result) []string {
	var out []string
	differ := func(what string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("%s differs: %v and %v", what, x, y))
		}
	}
	differ("model", a.ModelID, b.ModelID)
	p, q := a.Penstock, b.Penstock
	if mixText(p.Load.Mix) != mixText(q.Load.Mix) {
		differ("dialect", mixText(p.Load.Mix), mixText(q.Load.Mix))
	} else {
		differ("backend", a.Backend, b.Backend)
	}
	differ("request rate", rateText(a.RequestRate), rateText(b.RequestRate))
	differ("concurrency", limitText(a.MaxConcurrency), limitText(b.MaxConcurrency))
	if differByFactor(a.Duration, b.Duration, maxDurationRatio) {
		differ("duration", result.NumberText(a.Duration)+" s", result.NumberText(b.Duration)+" s")
	}
	asked := [2][2]string{}
	if p.Load.Dataset != "" && q.Load.Dataset != "" { // files from older versions do not name the data set
		differ("dataset", p.Load.Dataset, q.Load.Dataset)
		differ("streaming", onOffText(p.Load.Streamed), onOffText(q.Load.Streamed))
		asked = [2][2]string{{p.Load.InputLength, q.Load.InputLength}, {p.Load.OutputLength, q.Load.OutputLength}}
	}
	for i, l := range []struct {
		what string
		sums [2]*int64
	}{
		{"input length", [2]*int64{a.TotalInputTokens, b.TotalInputTokens}},
		{"output length", [2]*int64{a.TotalOutputTokens, b.TotalOutputTokens}},
	} {
		x, y := meanPerRequest(l.sums[0], a.Completed), meanPerRequest(l.sums[1], b.Completed)
		switch {
		case asked[i][0] != asked[i][1] && asked[i][0] != "" && asked[i][1] != "":
			differ(l.what, asked[i][0], asked[i][1])
		case differByFactor(x, y, maxLengthRatio):
			differ(l.what, result.NumberText(x)+" tokens on average", result.NumberText(y))
		}
	}
	for i, r := range []*result.Result{a, b} {
		for _, why := range r.Penstock.Verdict.Reasons {
			if why.Invalidates {
				out = append(out, "the "+[]string{"base", "new"}[i]+" result is not valid: "+why.Text)
			}
		}
	}
	differ("arrival", strings.TrimSpace(p.Load.Mode+" "+p.Load.Arrival), strings.TrimSpace(q.Load.Mode+" "+q.Load.Arrival))
	differ("seed", p.Seed, q.Seed)
	differ("cpu", p.Environment.CPU, q.Environment.CPU)
	return out
}

// differByFactor reports whether the larger number exceeds factor times the smaller number. It
// returns false if either number is unknown (0).
func differByFactor(x, y, factor float64) bool {
	return x > 0 && y > 0 && max(x, y) > factor*min(x, y)
}

// meanPerRequest divides sum by requests. It returns 0 if the mean is unknown.
func meanPerRequest(sum *int64, requests int) float64 {
	if sum == nil || requests == 0 {
		return 0
	}
	return float64(*sum) / float64(requests)
}

func rateText(r result.Rate) string {
	if math.IsInf(float64(r), 0) {
		return "inf"
	}
	return result.NumberText(float64(r))
}

func limitText(n *int) string {
	if n == nil {
		return "no bound"
	}
	return strconv.Itoa(*n)
}

func onOffText(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// mixText formats a mix, for example as "chat 60 %, messages 40 %".
func mixText(mix map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(mix)) {
		if mix[name] == 1 {
			return name
		}
		parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*mix[name]))
	}
	return strings.Join(parts, ", ")
}

// clientResolution returns the largest difference in a measure, in ms, that the clients cannot
// resolve. Each run may measure its client's p99 against a server that does nothing, and the larger
// p99 is returned. If neither run measured it, clientResolution returns 0.
func clientResolution(measure string, a, b *result.Result) float64 {
	worst := 0.0
	for _, r := range []*result.Result{a, b} {
		var d *result.Distribution
		f := r.Penstock.Floor
		if f == nil {
			continue
		}
		switch measure {
		case result.TTFT, result.TTFTFromSchedule:
			d = f.TTFT
		case result.ITL, result.TPOT:
			d = f.ITLError
		case result.E2EL, result.E2ELFromSchedule:
			d = f.E2EL
		}
		if d != nil {
			worst = max(worst, d.Quantile(99))
		}
	}
	return worst
}
