// Package generate decodes text generation requests and plans the responses. It contains the
// request as engines read and check it, the controls that a test sets, and a plan for each choice,
// token by token.
//
// A Decoder is as strict as the simulated engine and returns the error messages of that engine. A
// Plan depends only on the prompt and the seeds. It stores no text that its generators can produce
// when the text is due. The package depends neither on the speed nor on the dialect in which a plan
// is sent.
package generate
