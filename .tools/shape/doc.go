// Command shape reports the structure of the source tree: files per package, lines per function,
// fields and methods per type, line widths, and upward references between files. Read the report
// before you change the structure. The command never fails, because the marks are only guides. It
// is more important that a reader can follow a call, and that decisions can be tested without a
// socket.
//
//	go -C .tools run ./shape                      values above the marks
//	go -C .tools run ./shape -upward PACKAGE      the best order of a package's files, and its upward references
//	go -C .tools run ./shape -all PREFIX          all measures of the packages below PREFIX
//
// # Upward references
//
// A file refers to another file of its package if it uses a declaration of that file: a type,
// function, method, field or constant. In each direction, a pair of files counts once, regardless
// of the number of uses. A call through an interface refers to the file that declares the
// interface.
//
// The layering of a package is the order of its files with the fewest upward pairs. The command
// computes the order from the code, so it cannot be set by hand. A pair that goes against the order
// is an upward reference. Files without circular references have no upward references. Two files
// that refer to each other have one upward reference, in either order. If the methods of a type are
// in different files and call each other, there are many upward references. In well-kept proxies of
// this size, at most a sixth of the references go upward.
//
// The best order corresponds to the minimum feedback arc set of the file graph. For cycles of up to
// 18 files, it is computed exactly. For larger cycles, a deterministic search may find an order
// with a few more upward references than necessary.
//
// # Fields and methods
//
// If a type embeds a type of the same package, all fields and methods of the embedded type count.
// Splitting a large type into embedded types therefore does not make it smaller.
package main
