package workload

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"penstock/bench/exit"
)

// lengthDistribution is a distribution of lengths in tokens.
type lengthDistribution struct {
	kind string // fixed, uniform or lognormal
	a, b float64
}

// ParseLength parses a length such as 512, uniform:100-900 or lognormal:512,0.8. The parameters of
// lognormal are the median and the standard deviation of the logarithm.
func ParseLength(text string) (lengthDistribution, error) {
	kind, rest, found := strings.Cut(text, ":")
	if !found {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return lengthDistribution{}, exit.Usagef("length %q: want a number above 0, uniform:A-B or lognormal:MEDIAN,SIGMA", text)
		}
		return lengthDistribution{kind: "fixed", a: float64(n)}, nil
	}
	sep := map[string]string{"uniform": "-", "lognormal": ","}[kind]
	x, y, two := strings.Cut(rest, sep)
	a, err1 := strconv.ParseFloat(x, 64)
	b, err2 := strconv.ParseFloat(y, 64)
	ok := sep != "" && two && err1 == nil && err2 == nil && a >= 1 && b >= 0 && a < 1e9 && b < 1e9
	if !ok || kind == "uniform" && b < a {
		return lengthDistribution{}, exit.Usagef("length %q: want a number above 0, uniform:A-B or lognormal:MEDIAN,SIGMA", text)
	}
	return lengthDistribution{kind: kind, a: a, b: b}, nil
}

// String returns the text that ParseLength parses.
func (l lengthDistribution) String() string {
	a, b := strconv.FormatFloat(l.a, 'f', -1, 64), strconv.FormatFloat(l.b, 'f', -1, 64)
	switch l.kind {
	case "uniform":
		return "uniform:" + a + "-" + b
	case "lognormal":
		return "lognormal:" + a + "," + b
	}
	return a
}

// draw returns a random length, which is at least 1. A lognormal length is at most 20 times its
// median.
func (l lengthDistribution) draw(rng *rand.Rand) int {
	switch l.kind {
	case "uniform":
		return int(l.a) + rng.IntN(int(l.b)-int(l.a)+1)
	case "lognormal":
		return max(1, int(min(l.a*math.Exp(l.b*rng.NormFloat64()), 20*l.a)))
	}
	return int(l.a)
}
