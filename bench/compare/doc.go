// Package compare compares two results, and turns conditions on results into an exit code.
//
// Every difference has a bootstrap interval. The intervals of latencies are computed from the
// histograms, those of rates from blocks of the time series, and those of fractions from the
// counts. The gaps in one request are not independent, so each request counts as one sample of ITL.
// A latency difference below the clients' floor, which is the higher floor p99 of the two runs, is
// neither better nor worse. Notes describe how the loads differ.
//
// The bootstrap does not draw single samples. It draws a Poisson count for each bucket of a
// histogram. The cost for a million gaps therefore depends only on their thousand buckets, and
// result files need not contain samples. The drawback is that samples from one burst look
// independent.
//
// An Assertion is a condition on a result. A RegressionLimit limits how much worse than a baseline
// a result may be. A ResultChecker applies both.
package compare
