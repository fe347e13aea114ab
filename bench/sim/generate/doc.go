// Package generate reads a request for text and plans the answer: the request as engines read and
// check it, the controls that a test sets, and the plan for each choice, token by token.
//
// A Decoder reads as strictly as the simulated engine, and refuses in that engine's words. A Plan
// depends only on prompt and seeds. It holds no text that its generators can make when the text is
// due. The package does not know how fast or in which dialect a plan is sent.
package generate
