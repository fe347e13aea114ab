// Package batch is `penstock batch`: it sends the lines of a file of OpenAI's Batch API to a
// running edge and writes the answers to another one.
//
// # Design
//
// The edge keeps nothing: the files are the batch's whole state. What the output has is not asked
// for again, by custom_id, so a run that was ended, or killed, goes on where it was when it is
// started again. A last line that a kill has cut is taken off, and so are lines that failed for
// want of an engine or of room, or because the key may not do that or the model is not there, which
// are asked anew. A file with any other line is not the output of a batch, and stays as it is. A
// run holds a lock on its output.
//
// The input is checked whole before anything is sent: a mistake in line 40,000 shows at once, and
// not after a night.
//
// How many requests run at once follows from the edge's answers, up to a ceiling. The number grows
// until the first refusal for want of a slot, then by one for each round of answers; a refusal
// sets it to the requests that do run. The line that was refused waits for its Retry-After, and so
// does the whole batch when nothing else runs. A line that an engine cannot answer is given up
// after some attempts; where nothing at all is answered, the run ends instead, with the lines
// still to do.
package batch
