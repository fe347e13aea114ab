// Package canary compares an arm of a model with the rest, from an edge's counts of both, and
// reports whether the arm is worse.
//
// The edge keeps buckets, not samples. The interval of a quantile is therefore that of its rank,
// read from the buckets. The interval of a difference comes from the intervals of both sides (the
// method of variance estimates recovery, which gives Newcombe's interval for shares). No step is
// random: the same question always gets the same answer.
//
// The verdict asks two questions of each measure: is it surely worse by more than a little, and is
// it surely not worse by more than is tolerable? "Surely" is stricter for the first question,
// because there are several measures and a single worse one decides. Equal arms are called worse in
// at most one of a thousand comparisons (TestEqualArms measures this). If neither answer is sure,
// the verdict is "not yet known". Length is shown but not judged: a longer answer is different, not
// worse.
package canary
