// Package faults plays the fault matrix against the built program: one test for each row of failure
// and abuse, named by the number of its row, TestFault07_EngineNeverReads for row 7.
//
// Nothing of the edge runs in the test's process. The rig (proxy/e2e/rig) builds the program once;
// start writes a configuration, runs `penstock serve --config FILE` and talks to it over loopback,
// as clients, engines and operators do:
//
//	e := start(t, rig.Setup{})                   // one engine, one model "sim", one key
//	e.fault("blackhole")                         // what the engine does from now on
//	r := e.Ask(rig.MessagesStream, "")           // one of the ways: a dialect, in one piece or as a stream
//	r.WantRefused(rig.MessagesStream, rig.TooSlow) // in that dialect's own words: here a 529
//	e.wantSent(1)                                // what the engine saw
//
// inWays plays a row in many ways, each with a program of its own; a row with many variants shares
// the ways among them. Engines are the simulator (bench/sim) in the test's process, or a
// fakeEngine, a listener with a script for what even the simulator would not do. What must hold
// after every row, the rig checks when its test ends. A program built for the race detector (go
// test -race) that finds a race exits with another code and fails the test as well.
//
// TestSecurity tests are the rules of security that are no row of the matrix, by their number.
// TestSoak, built with the tag soak and run by .ci/soak, does everything at once for half an hour
// and then looks for what is left.
package faults
