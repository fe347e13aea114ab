// Package faults runs the fault matrix against the built program. Each row has a test that is named
// after the row's number: TestFault07_EngineNeverReads for row 7.
//
// The edge does not run in the test's process. The rig (proxy/e2e/rig) builds the program once.
// start writes a configuration and runs `penstock serve --config FILE`. Tests talk to the edge over
// loopback, as clients, engines and operators do:
//
//	e := start(t, rig.Setup{})                   // one engine, one model "sim", one key
//	e.fault("blackhole")                         // how the engine behaves from now on
//	r := e.Ask(rig.MessagesStream, "")           // one of the ways: a dialect, in one piece or as a stream
//	r.WantRefused(rig.MessagesStream, rig.TooSlow) // in that dialect's own words: here a 529
//	e.wantSent(1)                                // how many requests the engine got
//
// inWays runs a row in many ways, each with its own program. A row with many variants distributes
// the ways among its variants. Engines are the simulator (bench/sim) in the test's process, or a
// fakeEngine: a listener with a script for faults beyond the simulator's. When a test ends, the rig
// checks what must hold after every row. If the program is built with the race detector (go test
// -race), a race fails the test through the program's exit code.
//
// The TestSecurity tests check the security rules that are not rows of the matrix, and are named
// after the rules' numbers. TestSoak is built with the tag soak and run by .ci/soak. It does all of
// this at once for half an hour, and then checks for leaks.
package faults
