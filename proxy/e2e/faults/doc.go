// Package faults runs the fault matrix against the built program. Each row has a test named after
// the row's number, for example TestFault07_EngineNeverReads for row 7.
//
// The edge does not run in the test process. The rig (proxy/e2e/rig) builds the program once. start
// writes a configuration and runs `penstock serve --config FILE`. Tests communicate with the edge
// over loopback, as clients, engines and operators do:
//
//	e := start(t, rig.Setup{})                   // one engine, one model "sim", one key
//	e.fault("blackhole")                         // how the engine behaves from now on
//	r := e.SendRequest(rig.MessagesStream, "")   // a type of request: a dialect, streamed or not
//	r.WantRefused(rig.MessagesStream, rig.RefusalTooSlow) // as that dialect defines it: here a 529
//	e.wantSent(1)                                // how many requests the engine has received
//
// forEachRequestType runs a row with several types of requests (rig.RequestType), each with a
// separate program. If a row has many variants, each variant is tested with only one type. An
// engine is either the simulator (bench/sim) in the test's process, or a fakeEngine: a scripted
// listener for faults that the simulator cannot produce. If the program is built with the race
// detector (go test -race), a race fails the test through the program's exit code.
//
// The tests whose names begin with "TestSecurity" check the security rules that are not rows of the
// matrix. They are named after the rules' numbers. TestSoak, which is built with the tag soak and
// run by .ci/soak, runs these tests in parallel for half an hour and then checks for leaks.
package faults
