// Package process provides what the load tester needs from the system: child processes that end
// with it, processors to bind them to, and what a process has used.
//
// The children end with us, even when we are killed (Linux). Ctrl-C does not reach them, so that a
// report does not show engines that died first.
package process
