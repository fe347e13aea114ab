package progress

import (
	"slices"
	"time"
)

// numbers are the recent sums of the counters, newest first. For one engine, only the last sum and
// the higher sums from before a restart are kept. For several engines, all recent sums are kept.
type numbers struct {
	seen     []float64
	returned time.Time // when an earlier, higher sum last came back
}

const (
	numbersKept = 16          // maximum number of engines that can be told apart
	severalFor  = time.Minute // time for which a number that came back shows several engines
)

// change is the relation of a number to the numbers before it.
type change uint8

const (
	numberStood change = iota // nothing has moved
	numberRose
	numberFell
)

// several reports whether the numbers come from several engines, because a higher number came back.
func (n *numbers) several(at time.Time) bool { return at.Sub(n.returned) < severalFor }

// take records a number. With several engines, a new number counts as a rise from the next lower
// number.
func (n *numbers) take(number float64, at time.Time) change {
	if len(n.seen) == 0 {
		n.seen = append(make([]float64, 0, numbersKept), number)
		return numberStood
	}
	place, newest := slices.Index(n.seen, number), n.seen[0]
	is := numberStood
	switch {
	case place > 0 && number > newest:
		n.returned = at
	case number > newest, place < 0 && n.several(at) && number > slices.Min(n.seen):
		is = numberRose
	case number < newest && (place < 0 || !n.several(at)):
		is = numberFell
	}
	switch {
	case place >= 0:
		n.seen = slices.Delete(n.seen, place, place+1)
	case is == numberRose && !n.several(at):
		n.seen = slices.Delete(n.seen, 0, 1)
	case len(n.seen) == numbersKept:
		n.seen = n.seen[:numbersKept-1]
	}
	n.seen = slices.Insert(n.seen, 0, number)
	return is
}
