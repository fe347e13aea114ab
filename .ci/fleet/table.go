package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// verdict says whether a goal holds.
type verdict uint8

const (
	elsewhere   verdict = iota // this run does not measure the goal
	unexercised                // the run was too short to measure the goal
	held
	missed
)

func (v verdict) String() string {
	return [...]string{"not measured here", "not exercised", "held", "MISSED"}[v]
}

// holds returns the verdict of a condition.
func holds(ok bool) verdict {
	if ok {
		return held
	}
	return missed
}

// holdsIf returns the verdict of a condition, which is unexercised if the run did not exercise it.
func holdsIf(exercised, ok bool) verdict {
	if !exercised {
		return unexercised
	}
	return holds(ok)
}

// row is one line of the table.
type row struct {
	goal                  int // number in the list of goals
	what, bound, measured string
	verdict               verdict
}

// table is the output of the command.
type table []row

// add adds a row.
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

// missed lists the goals that do not hold.
func (t table) missed() (out []string) {
	for _, r := range t {
		if r.verdict == missed {
			out = append(out, fmt.Sprintf("%d (%s)", r.goal, r.what))
		}
	}
	return out
}

// sort orders the rows by goal.
func (t table) sort() {
	slices.SortStableFunc(t, func(a, b row) int { return cmp.Compare(a.goal, b.goal) })
}
