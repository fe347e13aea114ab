// Package batch is `penstock batch`: it sends the lines of a file for OpenAI's Batch API to a
// running edge and writes the answers to another file.
//
// # Design
//
// The edge keeps nothing: the files are the batch's whole state. A run does not ask again for lines
// whose custom_id is in the output, so a run that was ended or killed resumes where it left off
// when it is started again. It removes a last line that a kill has cut. It also removes, and asks
// again for, lines that failed because no engine or no room was free, because the key lacks a
// right, or because the model does not exist. A file with any other line is not the output of a
// batch, and stays as it is. A run holds a lock on its output.
//
// The input is checked whole before anything is sent: a mistake in line 40,000 shows at once, not
// after a night.
//
// The edge's answers determine how many requests run at once, up to a ceiling. The number grows
// until the first refusal for lack of a slot, then by one for each round of answers; a refusal sets
// it to the number of running requests. The refused line waits for its Retry-After, and so does the
// whole batch when nothing else runs. A line that an engine cannot answer is given up after some
// attempts. If nothing at all is answered, the run ends instead, and the lines remain to be done.
package batch
