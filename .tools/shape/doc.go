// Command shape measures the form of the tree and holds it against the limits of the house: files of a package,
// lines of a function, fields and methods of a type, width of lines, and references between files that go upward.
//
//	go -C .tools run ./shape                      what breaks a limit and is not a known exception (TestTree runs this)
//	go -C .tools run ./shape -upward PACKAGE      the best order of a package's files, and what goes against it
//	go -C .tools run ./shape -all PREFIX          every measure of the packages below PREFIX
//	go -C .tools run ./shape -lower               lowers the known exceptions to today's numbers and drops those that hold
//
// # Upward references
//
// A file refers to another file of its package when it names at least one thing that the other declares: a type, a function,
// a method, a field, a constant. Such a pair of files counts once, in each direction, however often the name occurs. A call
// through an interface refers to the file that declares the interface.
//
// The layering of a package is the order of its files in which the fewest pairs go upward. No list and no file name says
// it, so it cannot be set by hand: the measure finds the order that is best for the code as it stands. A pair that goes
// against that order is an upward reference. Files without circles among them have none. Two files that refer to each other
// have one, whichever stands on top; the parts of one type that are spread over files and call each other have many. A
// limit of a sixth is what well kept proxies of this size have.
//
// The best order is the minimum feedback arc set of the graph of files. It is computed exactly for circles of up to 18
// files; for larger ones a fixed search finds an order that may have a few upward references too many, never too few.
//
// # Fields and methods
//
// Embedded types of the same package count with all that they have, so that a big type does not become small by being put
// into bags. Types that are plain data (a settings file, a record, a wire form) are listed with a reason.
//
// # Exceptions
//
// proxy/e2e/tree.txt holds them, one a line. A number there may only fall: an exception that is larger than what is
// measured fails as one that is missing does.
package main
