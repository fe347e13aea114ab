// Package generate is what a request for text asks of a simulated engine, and the answer that it
// gets: the request as engines read and check it, the controls of a test, and the plan of each
// choice, token by token.
//
// A Decoder reads as strictly as the simulated engine, and refuses in that engine's words. A Plan
// depends only on prompt and seeds, and holds no text that its generators can make when it is due.
// The package does not know how fast a plan is spoken, or in which dialect.
package generate
