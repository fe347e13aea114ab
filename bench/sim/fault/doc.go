// Package fault describes, as data, what can go wrong with a simulated engine: each fault's name
// and parameters, when it happens, and its effect on an answer.
//
// A fault is a section of faults.txtar: a name with parameters, a line of description, and Effects
// members as JSON, which may depend on a parameter. The usage line also defines how parameters are
// read. Most members change what the writers of heads, bodies and streams do; the rest are Steps, a
// short script that replaces an answer or runs in the middle of it. Therefore faults that affect
// different things can be combined ("crlf+split+no-done"), and no path of the simulator has a
// misbehaving copy.
//
// The package reads specs and decides which requests they hit. It does not know which code performs
// an effect, or on which socket.
package fault
