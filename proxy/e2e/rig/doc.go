// Package rig is the test bench of the suites beside it (e2e, faults, browser): it puts an edge
// between simulated engines and clients, and says at the end of every test whether the edge's books
// are in order. It is imported by tests alone.
//
// There are two ways to run an edge, and the rest is the same for both:
//
//	p := rig.Start(t, rig.Setup{})     // in the test's process: quick, and open to the race detector and the profiler
//	p := rig.Launch(t, rig.Setup{})    // the built program, with files, signals and exit codes
//
//	r := p.Post("/v1/chat/completions", p.Chat(""))   // the key is sent by itself
//	r.WantStatus(200)
//	p.Engines[0].Stats()                              // what the engine saw
//
// A Setup says what stands between the client and the engines, in the words of the configuration;
// its zero value is one engine, one model "sim" and one key. A Way is a manner of asking (a
// dialect, in one piece or as a stream), a Refusal what a client is told instead of an answer; Raw
// is a client that no library would be.
//
// When a test is over the rig waits for rest and then checks what must hold after every test: no
// call, lease, slot or body byte is left, on the state page, in the catalog and in the metrics; no
// engine works; every call has exactly one line in the log, under its own request id, and is
// counted once; no panic was recovered; nothing of a prompt, a key or an engine's internals is in
// the log, the metrics, the state page or on standard output; the edge ends when it is told to, and
// without an error. Main, which every suite's TestMain calls, looks for goroutines that are left.
//
// # A busy machine
//
// The tests wait most of the time and run side by side, on machines that have other work. So what a
// test does not measure is patient: the rig waits for conditions, up to Patience, and never for a
// time; a Setup that does not say otherwise gives probes and connections long clocks, so that a
// good engine that is late is not taken for a bad one. What a test does measure, it measures with
// Slack.
package rig
