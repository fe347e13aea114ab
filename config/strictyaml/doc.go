// Package strictyaml binds a YAML document to Go structs. It reports every mistake with a line, an
// excerpt and a remedy. It does not interpret the values. Package config and the engine profiles in
// package upstreams use it.
//
// # From text to values
//
// [Read] works in these steps:
//
//  1. parse_cost.go splits the text into tokens, and rejects it if there are too many.
//  2. parse.go parses the tokens into a tree. If there is a syntax error, no other mistakes are
//     reported. simple.go reads files in the usual format into the same tree, without tokens.
//  3. aliases.go resolves anchors, aliases, merge keys and plain tags, within limits.
//  4. bind.go and scalar.go bind the tree to structs by their yaml tags, and resolve ${VAR} and
//     file: secrets (references.go). The position of each value (source, line, column) is stored
//     under its path.
//
// A type that has more than one YAML form implements [NodeBinder]. A type that parses its text
// implements UnmarshalYAML. List elements with SetDefaults start from their defaults. [Positions]
// contains the position of each value, for checks between values.
//
// # Design
//
// The package binds the tree itself, because the YAML library's decoder stops at its first error.
// With that decoder, an operator would need five runs to repair five mistakes. The package uses the
// library's parser, whose tokens have positions. Most of the time that a reload of ten thousand
// keys takes is spent on parsing. simple.go therefore bypasses the parser for files that can be read
// line by line. A property test checks that simple.go and the parser return the same tree.
//
// Variables are resolved in the tree rather than in the text. The value of a variable therefore
// cannot add keys or lists, a problem with the value has a line, and comments may contain ${VAR}.
//
// One mistake is reported as one problem. A value that could not be read is marked as broken, and
// checks that depend on it are skipped. For example, a misspelt `name` causes one problem, and
// references to that name cause no further problems.
//
// No message contains a secret. An excerpt ends before a secret or a text that may be one. Messages
// show ${VAR} instead of its value, and never quote a secret.
//
// A small file must not consume many resources. The parser's memory grows with the square of the
// numbers of levels, members and documents, so the tokens are counted before parsing. Otherwise,
// the author of a keys file could take an edge down. The number of nodes that aliases may add is
// limited, at most a hundred problems per file are reported, and long texts are truncated.
//
// A null value counts as absent, so `admin:` without lines below it means the default. Such a line
// may remain if an operator comments out the lines below it.
//
// The tests of package config cover this package: a corpus of mistakes with their exact output,
// hostile files, and a fuzz target.
package strictyaml
