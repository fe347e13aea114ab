// Package strictyaml binds a YAML document to Go structs and reports everything in it that does not
// fit, each with its line, an excerpt and a remedy. It knows nothing of what the values mean;
// package config, and the engine profiles of upstreams, are its callers.
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
// UnmarshalYAML; elements of a list with SetDefaults start from their defaults. [Places] knows
// where each value stood, for checks that tie values together.
//
// # Design
//
// Own binding instead of the YAML library's decoder. The library stops at its first error, so a
// file with five mistakes would take five runs to repair. Its parser is used, for its tokens have
// positions. It takes most of a reload of ten thousand keys, so it is passed over where lines can
// be read one by one; a property test holds that this makes no difference.
//
// Variables are resolved in the tree, not in the text. So the value of a variable cannot add keys
// or lists to the file, a problem with it has a line, and a comment may show ${VAR} freely.
//
// No echo. A value that could not be read is remembered as broken, and checks that depend on it are
// skipped: a misspelt `name` is one problem and not one for every value that refers to it.
//
// No secret in any message. Excerpts are cut where a secret stands, or what may be one: the rest of
// the line after it is lost, which is the safe side. Messages show ${VAR} and not what it holds,
// and never quote a secret.
//
// Small files cost little. The parser's memory grows with the square of levels, members and
// documents, so a file is measured by its tokens before it is parsed: a keys file that somebody
// else writes must not take an edge down. What aliases multiply is bounded while it is bound, a
// hundred problems are reported of a file, and no text of it at length.
//
// Null is absence. `admin:` with nothing below it means the default, not an empty value, because
// that is what it looks like when its lines are commented out.
//
// The tests of package config hold it: a corpus of mistakes with the exact output of each, hostile
// files, and a fuzz target.
package strictyaml
