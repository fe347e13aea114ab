// Package jsonx reads and edits JSON on the hot path. One pass over a body validates the body and
// records where everything is. The package allocates nothing once its memory has grown to the size
// of the work.
//
// The edge reads a few members of a body, changes two or three, and forwards everything else
// unchanged. Nothing is therefore decoded into structures or encoded from them. Doc.Parse scans the
// source once and makes a tape of nodes, which hold each value's kind, start and end. Value, Iter
// and Key are views of the tape and the source. Fields looks up all members of interest in one pass
// and refuses ambiguous objects. Edits builds the body to forward from the old body and the
// changes. AppendString and AppendEscaped write strings into JSON that the translators build by
// hand. To carry a string from one JSON text into another, copy its Raw, which is valid there as
// well.
//
// Cursor reads without a tape. It suits a caller that knows what it is looking for and can leave
// unusual documents to a Doc.
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
// on a member and forwards the body must refuse both kinds of bodies, or the engine acts on a value
// other than the one that was checked. Fields does so for the requested names, with escapes
// decoded. Other names are not checked: they are forwarded, and the engine decides what they mean.
//
// # Design
//
// Measured on an otherwise idle machine (AMD EPYC, Go 1.26), a whole Parse takes 0.3 µs for a chat
// body of 1 KB, 8 µs for 100 KB of prose, 19 µs for 1 MB of image, 20 µs for 100 KB of Chinese and
// 18 µs for 100 KB of German. encoding/json.Valid, which checks no UTF-8 and records nothing, takes
// 2.7, 216, 2024, 202 and 203 µs. The reasons for the difference:
//
//   - Strings make up most of a body. Short ones are scanned eight bytes at a time in plain integer
//     arithmetic (see special), long ones 64 at a time with vector instructions: AVX2 on amd64
//     (special_amd64.s) and NEON, which every arm64 has (special_arm64.s). Both do what vectorText
//     documents, and use its look-up tables (special_vector.go). They pass over valid characters of
//     any length and over escapes of two bytes, stop at a block with anything else, and report the
//     position in it. Bytes after the last block are scanned like short strings. The times above
//     are those of AVX2; NEON has only been tested in an emulator, not measured.
//   - Other processors, and amd64 without AVX2, scan strings 64 bytes at a time in words of eight
//     (words.go), with the same escapes and two-byte characters and without a branch for each. This
//     code takes over after eight plain bytes of a string, and at a two-byte character. On amd64
//     prose and Chinese take twice as long this way as with vectors, German and Russian three
//     times, source code four, and an image five. That is 6 µs more for 100 KB of prose, 17 for
//     Chinese, 25 for German and 27 for source code.
//   - Tests check that both methods give the same results as a scan byte by byte, and that the
//     vector code does not read beyond its blocks.
//   - On amd64, blocks of ASCII with the common escapes are compared with themselves one byte
//     earlier, which takes 27 instructions per block. Only blocks that this loop cannot handle are
//     examined with masks, which takes a hundred.
//   - The vector code has no branch that depends on where an escape or a character ends. With such
//     a branch, dense escapes (source code has one every six bytes) cost 3 ns each for wrong
//     predictions: 54 µs for 100 KB instead of 16.
//   - Short tokens cost no more than storing a node. The scanner is one function with labels for
//     states, so that its state stays in registers. Nodes are written member by member, because
//     appending a literal made Parse up to twice as slow.
//   - Depth is limited, so the stack is a small array in the Doc. Values deeper than any that the
//     edge reads (mainly schemas of tools) are validated but not recorded.
//
// Considered: fastjson (accepts control characters, bad escapes and invalid UTF-8; suitable for
// bytes that Parse has validated), gjson (no validation, and each look-up scans again), sonic (a
// compiler at run time, tied to Go versions), simdjson-go (assembly for one architecture, no UTF-8
// check of its own), encoding/json/v2 (still an experiment).
//
// Package unsafe is used only in Float, because strconv parses only strings and converting bytes to
// a string copies them.
package jsonx
