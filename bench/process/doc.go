// Package process provides system functions for the load tester: child processes that end with it,
// processors to bind them to, and a process's use of time and memory.
//
// The children end with us, even when we are killed (Linux). Ctrl-C does not reach them, so that a
// report does not show engines that died first.
package process
