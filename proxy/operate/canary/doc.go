// Package canary compares an arm of a model with the upstreams without an arm (the rest), and
// reports whether the arm is worse. It uses the counts of one edge.
//
// The edge keeps buckets, not samples. So the interval for a quantile is the interval for its rank,
// read from the buckets. The interval for a difference is computed from the intervals for both
// sides (the method of variance estimates recovery, which gives Newcombe's interval for shares). No
// step is random: the same counts always give the same result.
//
// The verdict depends on two questions about each measure. Is it surely worse by more than a
// little? Is it surely not worse by more than is tolerable? "Surely" is stricter for the first
// question, because there are several measures and a single worse measure decides. Equal arms are
// called worse in at most one of a thousand comparisons (TestEqualArms measures this). If neither
// answer is sure, the verdict is "not yet known". Length is shown but not judged: a longer answer
// is different, not worse.
package canary
