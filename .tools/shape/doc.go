// Command shape reports the form of the tree: files of a package, lines of a function, fields and methods of a type,
// width of lines, and references between files that go upward. It is a report to read before a change of structure. It
// fails nothing: what counts is whether a reader can follow one call, and whether a decision can be tested without a socket.
//
//	go -C .tools run ./shape                      what stands out
//	go -C .tools run ./shape -upward PACKAGE      the best order of a package's files, and what goes against it
//	go -C .tools run ./shape -all PREFIX          every measure of the packages below PREFIX
//
// # Upward references
//
// A file refers to another file of its package when it names at least one thing that the other declares: a type, a function,
// a method, a field, a constant. Such a pair of files counts once, in each direction, however often the name occurs. A call
// through an interface refers to the file that declares the interface.
//
// The layering of a package is the order of its files in which the fewest pairs go upward. No list
// and no file name says it, so it cannot be set by hand: the measure finds the order that is best
// for the code as it stands. A pair that goes against that order is an upward reference. Files
// without circles among them have none. Two files that refer to each other have one, whichever
// stands on top; the parts of one type that are spread over files and call each other have many. In
// well-kept proxies of this size it is a sixth at most.
//
// The best order is the minimum feedback arc set of the graph of files. It is computed exactly for circles of up to 18
// files; for larger ones a fixed search finds an order that may have a few upward references too many, never too few.
//
// # Fields and methods
//
// Embedded types of the same package count with all that they have, so that a big type does not become small by being put
// into bags.
package main
