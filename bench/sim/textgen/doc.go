// Package textgen makes up the text of a simulated model: words, the values of a JSON schema, and
// the random numbers behind both.
//
// Everything depends only on a seed and is the same in every process: a test can compare a stream
// with an unstreamed answer, and a run with its repetition. A Generator holds a number and its
// state in the chain of words, so that an answer of any length takes no memory before it is sent.
// The JSON form of each word is made once, because a load test writes millions of them.
//
// The words are few and plain, but some contain characters on which careless code fails: umlauts,
// four-byte characters, quotes, a backslash.
package textgen
