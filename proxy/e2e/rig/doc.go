// Package rig is the test bench for the end-to-end suites. It runs an edge between simulated
// engines and clients, and checks the edge's log and counts at the end of every test.
//
// An edge can run in two ways:
//
//	p := rig.Start(t, rig.Setup{})     // in the test's process: quick, and open to the race detector and the profiler
//	p := rig.Launch(t, rig.Setup{})    // the built program, with files, signals and exit codes
//
//	r := p.Post("/v1/chat/completions", p.Chat(""))   // the key is sent automatically
//	r.WantStatus(200)
//	p.Engines[0].Stats()                              // the requests that the engine has received
//
// A Setup describes the engines and the configuration. Its zero value means one engine, one model
// "sim" and one key. A Way is a kind of request (a dialect, streamed or not). A Refusal is an error
// that a client receives instead of an answer. Raw is a client that behaves as no library would.
//
// After a test the rig waits until the edge is idle. It then checks these conditions:
//
//   - No call, lease, slot or body byte is left on the state page, in the catalog or in the
//     metrics.
//   - No engine works.
//   - Every call has exactly one line in the log, with its own request id, and is counted once.
//   - No panic was recovered.
//   - No part of a prompt, a key or an engine's internals is in the log, the metrics, the state
//     page or on standard output.
//   - The edge stops on request and without an error.
//
// Main, which every suite's TestMain calls, checks for leaked goroutines.
//
// # A busy machine
//
// The tests wait most of the time and run in parallel, on machines that have other work. It waits
// for conditions and never for a fixed time. It waits for at most Patience, and longer on a busy
// machine. If a test still runs shortly before the deadline of its package, the rig stops the
// test's edge, so that only this test fails. Measurements add Slack.
package rig
