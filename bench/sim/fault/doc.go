// Package fault describes, as data, what can go wrong with a simulated engine: each fault's name
// and parameters, when it happens, and its effect on an answer.
//
// A fault is a section of faults.txtar: a name with parameters, a line of description, and Effects
// members as JSON, which may depend on a parameter. The usage line also defines how parameters are
// read. Most members change how heads, bodies and streams are written. The other members are Steps,
// a short script that replaces an answer or runs in the middle of it. Faults that affect different
// things can therefore be combined ("crlf+split+no-done"), and no code path of the simulator needs
// a misbehaving copy.
//
// The package reads specs and decides which requests they affect. It does not know which code
// performs an effect, or on which socket.
package fault
