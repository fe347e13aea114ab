// Package strictyaml binds a YAML document to Go structs and reports every mistake in it with a
// line, an excerpt and a remedy. The package does not know what the values mean. Its callers are
// package config and the engine profiles of package upstreams.
//
// # From text to values
//
// [Read] goes through these steps:
//
//  1. measure.go: the text is cut into tokens, and refused if they are too many.
//  2. parse.go: the parser makes one tree. A syntax error ends here, alone. Files in the usual form
//     are read by plain.go, without tokens and parser, into the same tree.
//  3. tree.go: anchors, aliases, merge keys and plain tags are looked through, within bounds.
//  4. bind.go, scalar.go: the tree is bound to structs by their yaml tags. ${VAR} and file: secrets
//     are resolved where they stand (external.go). Every value leaves a mark (line, column, source)
//     under its path.
//
// A type with several written forms is a [NodeBinder]; one that parses its own text has
// UnmarshalYAML; list elements with SetDefaults start from their defaults. [Places] knows where
// each value stood, for checks between values.
//
// # Design
//
// The package binds the tree itself, because the YAML library's decoder stops at its first error: a
// file with five mistakes would need five runs to repair. The package uses the library's parser,
// whose tokens have positions. Parsing dominates a reload of ten thousand keys, so plain.go
// bypasses the parser for files whose lines can be read one by one. A property test checks that
// plain.go and the parser give the same tree.
//
// Variables are resolved in the tree, not in the text. Therefore a variable's value cannot add keys
// or lists to the file, a problem with the value has a line, and comments may contain ${VAR}.
//
// One mistake gives one problem. A value that could not be read is marked as broken, and checks
// that depend on it are skipped: a misspelt `name` is one problem, without further ones for the
// values that refer to it.
//
// No message holds a secret. An excerpt ends where a secret, or a text that may be one, begins; the
// rest of the line is not shown. Messages show ${VAR} and not its value, and never quote a secret.
//
// A small file must not cost much. The parser's memory grows with the square of levels, members and
// documents, so the tokens of a file are counted before it is parsed: a keys file from another
// author must not take an edge down. The nodes that aliases multiply are bounded during binding, at
// most a hundred problems are reported for a file, and long texts are cut.
//
// A null value counts as absent. `admin:` with nothing below it means the default, not an empty
// value, because that is what remains when the lines below it are commented out.
//
// The tests of package config cover this package: a corpus of mistakes with the exact output of
// each, hostile files, and a fuzz target.
package strictyaml
