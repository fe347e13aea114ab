// Package canary compares an arm of a model with the upstreams without an arm (the rest), and
// reports whether the arm is worse. It uses the counts of one edge.
//
// The edge stores histograms, not samples. The interval for a quantile is therefore computed as an
// interval for the quantile's rank, and then read from the histogram. The interval for a difference
// is computed from the intervals of both sides by the method of variance estimates recovery
// (MOVER). For shares, the result is Newcombe's interval.
//
// The verdict depends on two questions about each measure. Is the arm certainly worse by more than
// a little? Is the arm certainly not worse by more than is tolerable? The first question requires a
// higher certainty, because a single measure is enough for the verdict "worse". At most one in a
// thousand comparisons of equal arms yields "worse" (TestEqualArms measures this). If neither
// answer is certain, the verdict is "not yet known". Length is shown but not judged, because a
// longer answer is not worse.
package canary
