// Package fault is what can go wrong with a simulated engine, as data: the names and parameters of
// faults, when each of them happens, and what it does to an answer.
//
// A fault is a section of faults.txtar: its name and parameters, a line for people, and members of
// Effects as JSON, behind a condition where they depend on a parameter. The usage that people read
// is what parameters are read by. Most members say what the writer of heads, bodies and streams
// does differently; the rest are Steps, a short script for what comes in place of an answer or in
// the middle of it. So faults that touch different things can be joined
// ("crlf+split+no-done"), and no path of the simulator has a copy of itself that misbehaves.
//
// The package reads specs and decides whom they hit. Who acts an effect out, and on which socket,
// is not known here.
package fault
