// Package jsonx reads and edits JSON on the hot path. One pass over a body validates the body and
// records where everything is. The package allocates nothing once its memory has grown to the size
// of the work.
//
// The edge reads a few members of a body, changes two or three, and forwards the rest unchanged. So
// nothing is decoded into structures or encoded from them. Doc.Parse scans the source once and
// leaves a tape of nodes, which hold each value's kind, start and end. Value, Iter and Key are
// views of the tape and the source. Fields looks up all members of interest in one pass and refuses
// ambiguous objects. Edits builds the body to forward from the old body and the changes.
// AppendString and AppendEscaped write strings into JSON that the translators build by hand. To
// carry a string from one JSON text into another, copy its Raw, which is valid there as well.
//
// Cursor reads without a tape. It suits a caller that knows what it looks for and can leave an
// unusual document to a Doc.
//
// # What is accepted
//
// Parse accepts RFC 8259 and nothing else: no byte order mark, comments, NaN, leading zeros, raw
// control characters, trailing commas or trailing data; and the source must be UTF-8, without
// overlong forms or encoded surrogates. A \u escape of a lone surrogate is legal JSON and accepted;
// decoded, it becomes U+FFFD, as in encoding/json. Requests are parsed with Options.Paired, which
// refuses such escapes: some engines' parsers refuse them, and others fail when they encode the
// string. MendLone replaces them with U+FFFD, for texts that have been through an engine. The fuzz
// tests compare Parse with encoding/json.Valid and utf8.Valid together, decoded values with those
// of encoding/json, and a Cursor with Parse.
//
// In addition Parse limits the depth, the members of one object at any depth, and the nodes of the
// tape (Options, MaxMembers), so that no body costs more than its length. Parse validates numbers
// without evaluating them, and Int and Float take linear time, so a number of a million digits is
// as cheap as a string.
//
// # Duplicates
//
// Of two members with the same name some readers take the first and some the last, and Go's
// decoder, which at least one engine uses, takes "Model" for "model". A proxy that bases a decision
// on a member and forwards the body must refuse both kinds of bodies, or the engine acts on another
// value than the one that was checked. Fields does so for the requested names, with escapes
// decoded. Other names are not checked: they are forwarded, and the engine decides what they mean.
//
// # Design
//
// Measured on the quiet project machine (AMD EPYC, Go 1.26), a whole Parse takes 0.3 µs for a chat
// body of 1 KB, 8 µs for 100 KB of prose, 19 µs for 1 MB of image, 20 µs for 100 KB of Chinese and
// 18 µs for 100 KB of German. encoding/json.Valid, which checks no UTF-8 and records nothing, takes
// 2.7, 216, 2024, 202 and 203. The reasons for the difference:
//
//   - Strings are most of a body. Short ones are scanned eight bytes at a time in plain integer
//     arithmetic (see special), long ones 64 at a time with vector instructions: AVX2 on amd64
//     (special_amd64.s) and NEON, which every arm64 has (special_arm64.s). Both do what vectorText
//     documents, and use its look-up tables (special_vector.go). They pass over valid characters of
//     any length and over escapes of two bytes, stop at a block with anything else, and report the
//     position in it. Bytes after the last block are scanned as short strings are. The times above
//     are those of AVX2; NEON has only been tested in an emulator, not measured.
//   - Other processors, and amd64 without AVX2, pass strings 64 bytes at a time by words of eight
//     (words.go), with the same escapes and characters of two bytes and without a branch for each.
//     They take over a string after eight plain bytes and at a character of two bytes. On amd64
//     prose and Chinese take twice as long this way as with vectors, German and Russian three
//     times, source code four, an image five, which is 6 µs more for 100 KB of prose, 17 for
//     Chinese, 25 for German, 27 for source code.
//   - Tests check that both ways give the same results as each other and as a scan byte by byte,
//     and that the vectors do not read beyond their blocks.
//   - On amd64 blocks of ASCII with the common escapes are compared with themselves one byte
//     earlier, at 27 instructions each; only what that loop does not know is examined with masks,
//     which takes a hundred.
//   - The vectors have no branch that depends on where an escape or a character ends: dense escapes
//     (source code has one every six bytes) cost 3 ns each where a branch has to guess, 54 µs for
//     100 KB instead of 16.
//   - Short tokens cost no more than storing a node. The scanner is one function with labels for
//     states, so that its state lives in registers, and nodes are written member by member:
//     appending a literal made Parse up to twice as slow.
//   - Depth is bounded, so the stack is a small array in the Doc, and what lies deeper than
//     anything we read (mainly schemas of tools) is validated but not recorded.
//
// Considered: fastjson (accepts control characters, bad escapes and invalid UTF-8; fine on bytes
// that Parse has seen, as the translators use it), gjson (no validation, each look-up scans again),
// sonic (a compiler at run time, tied to Go versions), simdjson-go (assembly for one architecture,
// no UTF-8 check of its own), encoding/json/v2 (still an experiment).
//
// Package unsafe is used only in Float: strconv parses only strings, and converting bytes to a
// string copies them.
package jsonx
