// Package textgen makes up what a simulated model says: words, the values of a JSON schema, and the
// numbers that both follow from.
//
// Everything follows from a seed, in every process the same: a test compares a stream with a plain
// answer, and a run with its repetition. A Generator holds a number and its place in the chain of
// words, so that an answer of any length costs no memory before it is due. Each word has its JSON
// form made once, because a load test writes millions of them.
//
// The words are few and plain, but some carry what careless code breaks on: umlauts, four-byte
// characters, quotes, a backslash.
package textgen
