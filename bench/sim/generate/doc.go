// Package generate is what a request for text asks of a simulated engine, and what it gets: the
// request as engines read and check it, the controls that a test puts into it, and the plan of each
// choice, token by token.
//
// A Decoder reads as strictly as the engine does that it plays, and refuses in its words. A Plan
// follows from prompt and seeds alone; it holds no text that its generators can make when it is
// due. How fast a plan is told, and in which dialect, is not known here.
package generate
