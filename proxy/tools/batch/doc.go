// Package batch implements `penstock batch`. It sends the lines of a file for OpenAI's Batch API to
// a running edge, and writes the answers to another file.
//
// # Design
//
// The edge stores no data of a batch. The two files hold the complete state of the batch. A run
// skips lines whose custom_id is in the output, so a batch that was interrupted or killed continues
// when it is started again. The run removes a last line that a kill has truncated. It also removes,
// and sends again, lines that failed because no engine or slot was free, because the key lacked a
// right, or because the model did not exist. A file with any other line is not the output of a
// batch, and stays unchanged. A run holds a lock on its output.
//
// The complete input is checked before any line is sent, so that a mistake in line 40,000 is
// reported at once, not after a night.
//
// The edge's answers determine how many requests run at once, up to a maximum. The number grows
// fast until the first request finds no free slot. After that it grows by one for each round of
// answers, and each refusal sets it to the number of running requests. The refused line waits for
// its Retry-After, and so does the batch if no other request runs. After some attempts the run
// gives up a line that no engine answers. If no line at all is answered, the run ends instead, and
// a later run sends the lines again.
package batch
