// Package textgen invents the text of a simulated model. It generates words, instances of a JSON
// schema, and the random numbers for both.
//
// The output depends only on a seed, and is the same in every process. A test can therefore compare
// a stream with an unstreamed response, or two runs with each other. A Generator stores only a
// number and its state in the word chain, so a long response takes no memory until it is sent. The
// JSON form of each word is computed only once, because a load test writes millions of words.
//
// The words are few and plain. Some of them contain characters that careless code mishandles:
// umlauts, four-byte characters, quotes, a backslash.
package textgen
