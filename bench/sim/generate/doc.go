// Package generate decodes text generation requests and plans the responses. It decodes and checks
// requests as engines do, reads the controls that a test sets, and plans each choice token by
// token.
//
// A Decoder is as strict as the simulated engine and returns the error messages of that engine. A
// Plan depends only on the prompt and the seeds. It does not store text that its generators can
// produce when the text is due. The package does not depend on the speed or the dialect in which a
// plan is sent.
package generate
