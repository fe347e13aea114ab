// Package fault describes the faults of a simulated engine as data. Each fault has a name,
// parameters, a schedule and effects on a response.
//
// A fault is a section in faults.txtar. A section consists of a name with parameters, a one-line
// description, and Effects members in JSON. The members may depend on a parameter. The usage line
// also defines how the parameters are parsed. Most members change how heads, bodies and streams are
// written. The other members contain Steps: a short script that replaces a response or runs in the
// middle of a response. Faults with different effects can therefore be combined
// ("crlf+split+no-done"), and no part of the simulator needs a second, faulty version.
//
// The package parses specs and decides which requests they affect. It does not depend on the code
// that performs an effect, or on the socket.
package fault
