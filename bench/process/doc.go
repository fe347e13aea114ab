// Package process provides system functions for the load tester: child processes, CPU pinning, and
// the CPU time and memory of processes.
//
// Child processes end with this process. On Linux, they do so even if this process is killed.
// Ctrl-C does not reach them. Otherwise engines could end before the report, which would then show
// dead engines.
package process
