package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type verdict uint8

const (
	notMeasured verdict = iota // this run does not measure the goal
	unexercised                // the run was too short
	held
	missed
)

func (v verdict) String() string {
	return [...]string{"not measured here", "not exercised", "held", "MISSED"}[v]
}

// verdictOf converts a condition to a verdict.
func verdictOf(ok bool) verdict {
	if ok {
		return held
	}
	return missed
}

// holdsIf is like verdictOf, but returns unexercised if the run did not exercise the condition.
func holdsIf(exercised, ok bool) verdict {
	if !exercised {
		return unexercised
	}
	return verdictOf(ok)
}

type row struct {
	goal                  int // number in the list of goals
	what, bound, measured string
	verdict               verdict
}

type table []row

func (t *table) add(goal int, what, bound string, v verdict, measured string, args ...any) {
	*t = append(*t, row{goal, what, bound, fmt.Sprintf(measured, args...), v})
}

func (t table) String() string {
	cells := [][5]string{{"#", "goal", "bound", "measured", ""}}
	for _, r := range t {
		cells = append(cells, [5]string{strconv.Itoa(r.goal), r.what, r.bound, r.measured, r.verdict.String()})
	}
	var widths [5]int
	for _, c := range cells {
		for i, text := range c {
			widths[i] = max(widths[i], len([]rune(text)))
		}
	}
	var b strings.Builder
	for _, c := range cells {
		var line strings.Builder
		for i, text := range c {
			line.WriteString(text + strings.Repeat(" ", widths[i]-len([]rune(text))+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

func (t table) missed() (out []string) {
	for _, r := range t {
		if r.verdict == missed {
			out = append(out, fmt.Sprintf("%d (%s)", r.goal, r.what))
		}
	}
	return out
}

func (t table) sort() {
	slices.SortStableFunc(t, func(a, b row) int { return cmp.Compare(a.goal, b.goal) })
}
