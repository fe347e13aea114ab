// Package canary compares an arm of a model with the rest, by what an edge has counted of both,
// and says whether the arm is worse.
//
// The edge keeps buckets, not samples. So the interval of a quantile is that of its rank, read
// from the buckets, and the interval of a difference comes from those of both sides (the method of
// variance estimates recovery, which gives Newcombe's interval where the sides are shares).
// Nothing is drawn by chance: who asks twice gets the same answer.
//
// The verdict asks two questions of each measure: is it surely worse by more than a little, and is
// it surely not worse by more than is tolerable? "Surely" is stricter for the first one, as
// several measures are looked at and one is enough: equal arms are called worse once in a thousand
// comparisons at most (TestEqualArms measures it). Where neither is sure it is not yet known.
// Length is shown and not judged: longer is another answer, not a worse one.
package canary
