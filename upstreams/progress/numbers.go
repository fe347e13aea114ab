package progress

import (
	"slices"
	"time"
)

// numbers contains the recent counter sums, newest first. If there is one engine, these are the
// last sum and the higher sums before a restart. If there are several engines, these are all recent
// sums.
type numbers struct {
	seen     []float64
	returned time.Time // when the sum last went back up to a value seen before
}

const (
	numbersKept = 16          // maximum number of engines that can be distinguished
	severalFor  = time.Minute // how long a sum that was seen before indicates more than one engine
)

// change describes how a sum relates to the earlier sums.
type change uint8

const (
	numberStood change = iota // no progress
	numberRose
	numberFell
)

// several reports whether a higher sum has been seen again, which shows that the sums come from
// more than one engine.
func (n *numbers) several(at time.Time) bool { return at.Sub(n.returned) < severalFor }

// take records a sum. If there is more than one engine, a new sum counts as a rise from the next
// lower sum.
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
