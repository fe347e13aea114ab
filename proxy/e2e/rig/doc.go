// Package rig is the test bench of the end-to-end suites. It runs an edge between simulated engines
// and clients. At the end of every test, it checks the edge's log and counts.
//
// An edge can run in two ways:
//
//	p := rig.Start(t, rig.Setup{})         // in the test process, with race detector and profiler
//	p := rig.StartProgram(t, rig.Setup{})  // the built program, with files, signals and exit codes
//
//	r := p.Post("/v1/chat/completions", p.ChatRequest(""))   // the key is sent automatically
//	r.WantStatus(200)
//	p.Engines[0].Stats()                              // the requests that the engine has received
//
// A Setup describes the engines and the configuration. Its zero value means one engine, one model
// "sim" and one key. A RequestType is a kind of request (a dialect, streamed or unstreamed). A
// Refusal is an error that a client receives instead of an answer. A RawConn is a client that can
// violate HTTP.
//
// After a test, the rig waits until the edge is idle. It then checks these conditions:
//
//   - The state page, the catalog and the metrics show no remaining call, lease, slot or body byte.
//   - No engine is working.
//   - Every call has exactly one log line with a unique request id, and is counted once.
//   - No panic was recovered.
//   - No part of a prompt, a key or an engine's internals is in the log, the metrics, the state
//     page or on standard output.
//   - The edge stops on request, without an error.
//
// Main, which every suite's TestMain calls, checks for leaked goroutines.
//
// # A busy machine
//
// The tests wait most of the time and run in parallel, on machines that do other work. The rig
// waits for conditions rather than for a fixed time. It waits for at most WaitTimeout, or longer if
// the machine is busy. If a test is still running shortly before its package's deadline, the rig
// stops the test's edge, so that only this test fails. Time limits for measurements include
// MachineSlack.
package rig
