// Package batch implements `penstock batch`, which sends the lines of a file for OpenAI's Batch API
// to a running edge and writes the answers to another file.
//
// # Design
//
// The edge stores nothing about a batch. The two files are its complete state. A run skips lines
// whose custom_id is in the output, so a batch that was interrupted or killed continues with the
// next run. A run removes a truncated last line from the output. It also removes lines that failed
// because no engine or slot was available, because the key had no permission, or because the model
// did not exist, and sends them again. If a file contains other lines, it is not the output of a
// batch, and a run does not change it. A run locks its output.
//
// The whole input is checked before the first line is sent, so that a mistake in line 40,000 is
// reported immediately instead of hours later.
//
// The edge's answers determine the number of concurrent requests, up to a maximum. The number grows
// quickly until the first request finds no free slot. After that, it grows by one for each round of
// answers, and each refusal reduces it to the number of other running requests. A refused line
// waits for its Retry-After. If no other request is running, the whole batch waits. If a line gets
// no answer, the run gives up on it after some attempts. If no line gets an answer, the run ends,
// and a later run continues.
package batch
