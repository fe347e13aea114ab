// Package process is what the load tester needs of the system: processes that it starts and that
// end with it, processors to bind them to, and what a process has used.
//
// What is started here ends with us, even when we are killed (Linux), and is not reached by Ctrl-C,
// so that a report is not one of engines that died first.
package process
