// Package canary compares an arm of a model with the rest, from what an edge has counted of both,
// and says whether the arm is worse.
//
// The edge keeps buckets, not samples. So the interval of a quantile is that of its rank, read from
// the buckets, and the interval of a difference comes from those of both sides (the method of
// variance estimates recovery, which gives Newcombe's interval where the sides are shares). No step
// is random: the same question always gets the same answer.
//
// The verdict asks two questions of each measure: is it surely worse by more than a little, and is
// it surely not worse by more than is tolerable? "Surely" is stricter for the first question,
// because there are several measures and one is enough: equal arms are called worse in at most one
// of a thousand comparisons (TestEqualArms measures it). If neither is sure, the verdict is "not
// yet known". Length is shown but not judged: a longer answer is different, not worse.
package canary
