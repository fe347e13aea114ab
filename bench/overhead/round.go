package overhead

import (
	"context"
	"fmt"
	"io"

	"penstock/bench/exit"
)

// runRound performs each measurement once with each target. It adds the values to the report only
// if the round is complete.
func (l *testBench) runRound(ctx context.Context, r *Report, tests []measurement, number int, notes io.Writer) error {
	type value struct {
		row    *ReportRow
		target string
		v      float64
	}
	var values []value
	var doubts []string
	rows := r.Tests
	for i := range tests {
		t := &tests[i]
		for j := range r.Targets {
			target := r.Targets[(j+number-1)%len(r.Targets)] // each round starts with a different target
			if target == "direct" && !t.direct || target != "penstock" && t.edgeOnly {
				continue
			}
			fmt.Fprintf(notes, "round %d of %d: %s, %s\n", number, r.Rounds, t.name, target)
			m, err := l.measureTarget(ctx, target, t)
			if err != nil {
				return exit.NewError(exit.Failed, fmt.Sprintf("%s through %s: %s", t.name, target, err))
			}
			for k, row := range t.rows {
				if target == "direct" && t.raw != nil && !row.withoutProxy {
					continue
				}
				values = append(values, value{&rows[k], target, row.value(m)})
			}
			if why := t.distrustReason(m); why != "" {
				doubts = append(doubts, fmt.Sprintf("%s, %s, round %d: %s", t.name, target, number, why))
			}
		}
		rows = rows[len(t.rows):]
	}
	for _, v := range values {
		v.row.Rounds[v.target] = append(v.row.Rounds[v.target], v.v)
	}
	r.Doubts = append(r.Doubts, doubts...)
	return nil
}
