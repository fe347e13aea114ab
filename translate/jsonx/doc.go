// Package jsonx is the hot path's JSON: one pass over a body that validates it and records where
// everything is, without an allocation once the memory has grown to the size of the work.
//
// The edge reads a few members of a body, changes two or three, and forwards the rest as it came.
// So there is no decoding into structures here and no encoding of them. Doc.Parse scans the source
// once and leaves a tape of nodes: kind, start and end of each value. Value, Iter and Key are views
// on the tape and the source; Fields looks up all members that a caller is interested in, in one
// pass, and is where ambiguous objects are refused; Edits makes the body that is sent on, from the
// old one and the changes. AppendString and AppendEscaped write strings into what the translators
// build by hand. To carry a string from one JSON text into another, copy its Raw: it is valid there
// too.
//
// # What is accepted
//
// Parse accepts RFC 8259 and nothing else: no byte order mark, comments, NaN, leading zeros, raw
// control characters, trailing commas or trailing data; and the source must be UTF-8, without
// overlong forms or encoded surrogates. A \u escape of a lone surrogate is legal JSON and accepted;
// decoded, it becomes U+FFFD, as encoding/json has it. Requests are parsed with Options.Paired,
// which refuses it: the parsers of some engines do, and others fail when they encode the string.
// MendLone writes U+FFFD in its place, for texts that have been through an engine. The fuzz tests
// hold Parse to the verdict of encoding/json.Valid and utf8.Valid together, and decoded values to
// those of encoding/json.
//
// On top of it there are limits, so that no body costs more than its length: depth, members of one
// object at any depth, and nodes of the tape (Options, MaxMembers). Numbers are validated but not
// evaluated by Parse, and Int and Float take linear time, so a number of a million digits is as
// cheap as a string.
//
// # Duplicates
//
// Of two members with the same name some readers take the first and some the last, and Go's
// decoder, which at least one engine uses, takes "Model" for "model". A proxy that decides upon a
// member and forwards the body must refuse both, or the engine acts on another value than the one
// that was checked. Fields does, for the names it is asked for, escapes decoded. Other names are
// free: they are forwarded, with the engine's own meaning.
//
// # Design
//
// Measured on the machine of the project while it was quiet (AMD EPYC, Go 1.26), whole Parse: 0.3
// µs for a chat body of 1 KB, 8 µs for 100 KB of prose, 19 µs for 1 MB of image, 20 µs for 100 KB
// of Chinese, 18 µs of German; encoding/json.Valid, which checks no UTF-8 and records nothing,
// takes 2.7, 216, 2024, 202 and 203. What made the difference:
//
//   - Strings are most of a body. Short ones are scanned eight bytes at a time in plain integer
//     arithmetic (see special), long ones 64 at a time with vector instructions: AVX2 on amd64
//     (special_amd64.s) and NEON, which every arm64 has (special_arm64.s). Both do what vectorText
//     says, and look things up in its tables (special_vector.go). They pass over valid characters
//     of any length and over escapes of two bytes, stop at a block with anything else, and report
//     where in it. What is left behind the last block is scanned as short strings are. The times
//     above are those of AVX2; the ones of NEON have not been measured, only tested, in an
//     emulator.
//   - Other processors, and amd64 without AVX2, pass strings 64 bytes at a time by words of eight
//     (words.go), with the same escapes and characters of two bytes and without a branch for each.
//     A string is given to them behind eight plain bytes and at a character of two bytes. On amd64
//     prose and Chinese take twice as long so as with vectors, German and Russian three times,
//     source code four, an image five, which is 6 µs more for 100 KB of prose, 17 for Chinese, 25
//     for German, 27 for source code.
//   - Tests hold the two ways to the same results, both to a scan byte by byte, and the vectors to
//     memory that ends where their blocks do.
//   - On amd64 blocks of ASCII with the common escapes are compared with themselves one byte
//     earlier, which takes 27 instructions each; only what that loop does not know is looked at with
//     masks, which takes a hundred.
//   - The vectors have no branch that depends on where an escape or a character ends: dense escapes
//     (source code: one every six bytes) cost 3 ns each where a branch has to guess, 54 µs for 100
//     KB in place of 16.
//   - Short tokens cost what it takes to store a node. The scanner is one function with labels for
//     states, so that its state lives in registers, and nodes are written member by member:
//     appending a literal made Parse up to twice slower.
//   - Depth is bounded, so the stack is a small array in the Doc, and what lies deeper than
//     anything we read (schemas of tools, above all) is validated but not recorded.
//
// Considered: fastjson (accepts control characters, bad escapes and invalid UTF-8; fine on bytes
// that Parse has seen, as the translators use it), gjson (no validation, each look-up scans again),
// sonic (a compiler at run time, tied to Go versions), simdjson-go (assembly for one architecture,
// no UTF-8 check of its own), encoding/json/v2 (an experiment still).
//
// The one use of package unsafe is in Float: strconv parses strings only, and a string of bytes is
// a copy.
package jsonx
