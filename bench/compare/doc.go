// Package compare compares two results, and turns conditions on results into an exit code.
//
// Every difference has a bootstrap interval. Latencies use the histograms, rates use the time
// series in blocks, and shares use the counts. The gaps of one request are not independent, so ITL
// counts as one sample for each request. A latency that differs by less than the clients' own floor
// (the floor's p99 in the worse run) is not called better or worse. Notes list the differences in
// the load itself.
//
// The bootstrap draws every bucket of a histogram as a Poisson count instead of drawing samples: a
// million gaps cost no more than their thousand buckets, and result files need not hold samples.
// The price is that samples of one burst look independent.
//
// An Assert is a condition on one result. A Regress limits how much worse than a baseline a result
// may be. A Judge applies both.
package compare
