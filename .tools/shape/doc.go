// Command shape reports the shape of the tree: files of a package, lines of a function, fields and
// methods of a type, width of lines, and upward references between files. Read the report before a
// change of structure. The command never fails: what counts is whether a reader can follow one
// call, and whether a decision can be tested without a socket.
//
//	go -C .tools run ./shape                      what stands out
//	go -C .tools run ./shape -upward PACKAGE      the best order of a package's files, and the references against that order
//	go -C .tools run ./shape -all PREFIX          every measure of the packages below PREFIX
//
// # Upward references
//
// A file refers to another file of its package if it names anything that the other declares: a
// type, a function, a method, a field, a constant. Such a pair of files counts once in each
// direction, however often the name occurs. A call through an interface refers to the file that
// declares the interface.
//
// The layering of a package is the order of its files with the fewest pairs that go upward. No list
// and no file name determines it, so it cannot be set by hand: the command finds the best order for
// the code as it is. A pair that goes against that order is an upward reference. Files that do not
// refer to each other in circles have no upward reference. Two files that refer to each other have
// one, whichever is on top. If the methods of one type are spread over several files and call each
// other, there are many. In well-kept proxies of this size at most a sixth of the references go
// upward.
//
// The best order is the minimum feedback arc set of the graph of files. It is computed exactly for
// circles of up to 18 files. For larger ones a fixed search finds an order that may have a few
// upward references too many, never too few.
//
// # Fields and methods
//
// An embedded type of the same package counts with all its fields and methods, so that splitting a
// large type into embedded ones does not make it small.
package main
