// Package faults plays the fault matrix against the built program: one test for each row of failure and abuse, named by the
// number of its row, TestFault07_EngineNeverReads for row 7.
//
// Nothing of the edge runs in the test's process. TestMain builds the program once; start writes a configuration, runs
// `penstock serve --config FILE` and talks to it over loopback, as clients, engines and operators do:
//
//	e := start(t, setup{})             // one engine, one model "sim", one key
//	e.fault("blackhole")               // what the engine does from now on
//	r := e.ask(messagesStream, "")     // one of the ways: a dialect, in one piece or as a stream
//	r.wantRefused(messagesStream, tooSlow)   // in that dialect's own words: here a 529
//	e.wantSent(1)                      // what the engine saw
//
// inWays plays a row in many ways, each with a program of its own; a row with many variants shares the ways among them.
//
// Engines are the simulator (bench/sim) in the test's process, or a fakeEngine, a listener with a script for what even the
// simulator would not do. A start costs about 20 ms, so that nearly every case has a program of its own.
//
// When a test ends, what must hold after every row is checked: nothing is in flight, every slot is free on the state page and
// in the catalog, no engine works, nothing of a prompt, a key or an engine's internals is in the log, the metrics or on
// standard output, every log line is JSON, SIGTERM ends the program, and its exit code is 0. A program built for the race
// detector (go test -race) that finds a race exits with another code and fails the test as well.
//
// TestSecurity tests are the rules of security that are no row of the matrix, by their number. TestSoak, built with the tag
// soak and run by .ci/soak, does everything at once for half an hour and then looks for what is left.
package faults
