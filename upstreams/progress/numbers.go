package progress

import (
	"slices"
	"time"
)

// sumHistory contains the recent counter sums, newest first. If there is one engine, these are the
// last sum and the higher sums from before a restart. If there is more than one engine, these are
// all recent sums.
type sumHistory struct {
	sums       []float64
	returnedAt time.Time // when the sum last rose to a value that had been read before
}

const (
	maxDistinguishedEngines = 16 // maximum number of engines that can be distinguished
	// How long a value that was read before indicates more than one engine.
	severalEnginesTime = time.Minute
)

// sumChange describes how a sum relates to the earlier sums.
type sumChange uint8

const (
	sumUnchanged sumChange = iota // no progress
	sumRose
	sumFell
)

// hasSeveralEngines reports whether a higher sum was recently read again, which shows that the sums
// come from more than one engine.
func (n *sumHistory) hasSeveralEngines(at time.Time) bool {
	return at.Sub(n.returnedAt) < severalEnginesTime
}

// record records a sum. If there is more than one engine, a new value counts as a rise from the
// next lower sum.
func (n *sumHistory) record(number float64, at time.Time) sumChange {
	if len(n.sums) == 0 {
		n.sums = append(make([]float64, 0, maxDistinguishedEngines), number)
		return sumUnchanged
	}
	place, newest := slices.Index(n.sums, number), n.sums[0]
	is := sumUnchanged
	switch {
	case place > 0 && number > newest:
		n.returnedAt = at
	case number > newest, place < 0 && n.hasSeveralEngines(at) && number > slices.Min(n.sums):
		is = sumRose
	case number < newest && (place < 0 || !n.hasSeveralEngines(at)):
		is = sumFell
	}
	switch {
	case place >= 0:
		n.sums = slices.Delete(n.sums, place, place+1)
	case is == sumRose && !n.hasSeveralEngines(at):
		n.sums = slices.Delete(n.sums, 0, 1)
	case len(n.sums) == maxDistinguishedEngines:
		n.sums = n.sums[:maxDistinguishedEngines-1]
	}
	n.sums = slices.Insert(n.sums, 0, number)
	return is
}
