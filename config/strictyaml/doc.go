// Package strictyaml binds a YAML document to Go structs and reports every mistake in it with a
// line, an excerpt and a remedy. The package does not know the meaning of the values. Its callers
// are package config and the engine profiles of package upstreams.
//
// # From text to values
//
// [Read] goes through these steps:
//
//  1. measure.go: the text is cut into tokens, and refused if they are too many.
//  2. parse.go: the parser makes one tree. A syntax error ends here, alone. Files in the usual form
//     are read by plain.go, without tokens and parser, into the same tree.
//  3. tree.go: anchors, aliases, merge keys and plain tags are resolved, within limits.
//  4. bind.go, scalar.go: the tree is bound to structs by their yaml tags. ${VAR} and file: secrets
//     are resolved where they stand (external.go). Every value leaves a mark (line, column, source)
//     under its path.
//
// A type that can be written in several ways is a [NodeBinder]. A type that parses its own text has
// UnmarshalYAML. List elements with SetDefaults start from their defaults. [Places] records the
// position of each value, for checks between values.
//
// # Design
//
// The package binds the tree itself, because the YAML library's decoder stops at its first error.
// With that decoder, a file with five mistakes would need five runs to repair. The package uses the
// library's parser, whose tokens have positions. Parsing dominates a reload of ten thousand keys,
// so plain.go bypasses the parser for files whose lines can be read one by one. A property test
// checks that plain.go and the parser give the same tree.
//
// Variables are resolved in the tree, not in the text. Therefore a variable's value cannot add keys
// or lists to the file, a problem with the value has a line, and comments may contain ${VAR}.
//
// One mistake gives one problem. A value that could not be read is marked as broken, and checks
// that depend on it are skipped. A misspelt `name` is one problem, without further problems for the
// values that refer to it.
//
// No message contains a secret. An excerpt ends before a secret, or before a text that may be one,
// and omits the remainder of the line. Messages show ${VAR} and not its value, and never quote a
// secret.
//
// A small file must not cost much. The parser's memory grows with the square of levels, members and
// documents, so the tokens of a file are counted before it is parsed. A keys file from another
// author must not be able to take an edge down. The number of nodes that aliases add is limited
// during binding, at most a hundred problems are reported for a file, and long texts are cut.
//
// A null value counts as absent. `admin:` without lines below it means the default, not an empty
// value, because such a line remains when the lines below it are commented out.
//
// The tests of package config cover this package: a corpus of mistakes with the exact output of
// each, hostile files, and a fuzz target.
package strictyaml
