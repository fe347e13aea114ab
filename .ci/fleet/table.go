package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

type rowVerdict uint8

const (
	verdictNotMeasured rowVerdict = iota // this run does not measure the goal
	verdictUnexercised                   // the run was too short
	verdictHeld
	verdictMissed
)

func (v rowVerdict) String() string {
	return [...]string{"not measured here", "not exercised", "held", "MISSED"}[v]
}

// heldOrMissed converts a condition to a verdict.
func heldOrMissed(ok bool) rowVerdict {
	if ok {
		return verdictHeld
	}
	return verdictMissed
}

// verdictIfExercised is like heldOrMissed, but returns verdictUnexercised if exercised is false.
func verdictIfExercised(exercised, ok bool) rowVerdict {
	if !exercised {
		return verdictUnexercised
	}
	return heldOrMissed(ok)
}

type tableRow struct {
	goal                  int // number of the goal in the list of goals
	what, bound, measured string
	verdict               rowVerdict
}

type resultTable []tableRow

func (t *resultTable) addRow(goal int, what, bound string, v rowVerdict, measured string, args ...any) {
	*t = append(*t, tableRow{goal, what, bound, fmt.Sprintf(measured, args...), v})
}

func (t resultTable) String() string {
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

func (t resultTable) missedRows() (out []string) {
	for _, r := range t {
		if r.verdict == verdictMissed {
			out = append(out, fmt.Sprintf("%d (%s)", r.goal, r.what))
		}
	}
	return out
}

func (t resultTable) sort() {
	slices.SortStableFunc(t, func(a, b tableRow) int { return cmp.Compare(a.goal, b.goal) })
}
