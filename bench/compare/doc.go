// Package compare compares two results, and turns conditions on results into an exit code.
//
// Every difference has a bootstrap interval. Latencies use the histograms, rates use the time
// series in blocks, and fractions use the counts. The gaps of one request are not independent. For
// ITL, each request therefore counts as one sample. A latency difference below the clients' floor,
// which is the p99 of the floor in the worse run, is neither better nor worse. Notes describe how
// the loads differ.
//
// The bootstrap does not draw single samples. It draws a Poisson count for each bucket of a
// histogram. The cost of a million gaps then depends only on their thousand buckets, and result
// files contain no samples. The drawback is that samples from one burst look independent.
//
// An Assert is a condition on a result. A Regress limits how much worse than a baseline a result
// may be. A Judge applies assertions.
package compare
