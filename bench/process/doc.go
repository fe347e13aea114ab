// Package process provides system functions for the load tester: child processes, CPU pinning, and
// the CPU time and memory of processes.
//
// Child processes end with this process. On Linux, they end even if this process is killed. Ctrl-C
// does not reach them. Otherwise, engines could end before the report is written, and the report
// would show dead engines.
package process
