// Package batch implements `penstock batch`, which sends the lines in a file for OpenAI's Batch API
// to a running edge, and writes the answers to another file.
//
// # Design
//
// The edge stores nothing about a batch. The two files are its entire state. A run skips lines
// whose custom_id is already in the output, so an interrupted or killed batch continues with the
// next run. A run removes a truncated last line from the output. It also removes failed lines that
// may succeed now, and sends them again. These lines failed because no engine or slot was
// available, the key had no permission, or the model did not exist. A file that contains any other
// lines is not the output of a batch, and a run leaves it unchanged. A run locks its output.
//
// The entire input is checked before the first line is sent, so that a mistake in line 40,000 is
// reported immediately rather than hours later.
//
// The edge's responses determine the number of concurrent requests, up to a maximum. The number
// grows quickly until a request finds no free slot. After that, the number grows by one per round
// of answers, and each refusal lowers it to the number of requests that are still running. A
// refused line waits until its Retry-After has passed. If no other request is running, the entire
// batch waits. If a line gets no response, the run gives it up after several attempts. If no line
// gets a response, the run ends, and a later run can continue.
package batch
