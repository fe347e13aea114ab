// Package process provides system functions for the load tester: child processes that end with it,
// processors to bind them to, and the time and memory that a process uses.
//
// The children end with us, even when we are killed (Linux). Ctrl-C does not reach them. Otherwise
// they could end first, and a report would show dead engines.
package process
