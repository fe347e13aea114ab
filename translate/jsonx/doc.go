// Package jsonx reads and edits JSON on the hot path. One pass over a body validates the body and
// records the position of every value.
//
// The edge reads a few members of a body, changes two or three, and forwards everything else
// unchanged. The package therefore does not decode bodies into Go structures or encode Go
// structures:
//
//   - Doc.Parse scans the source once and makes a tape of nodes. A node records the kind, start and
//     end of one value. Value, Iter and Key are views of the tape and the source.
//   - Fields looks up a list of members in one pass and rejects ambiguous objects.
//   - Edits builds the forwarded body from the original body and a list of changes.
//   - AppendString and AppendEscaped write strings into JSON that the translators build by hand. To
//     copy a string from one JSON text to another, append its Raw.
//   - Cursor reads without a tape. It suits callers that know which members they need and can parse
//     unusual documents with a Doc.
//
// # What is accepted
//
// Parse accepts exactly RFC 8259. It rejects byte order marks, comments, NaN, leading zeros, raw
// control characters, trailing commas and trailing data. The source must be UTF-8, without overlong
// forms or encoded surrogates.
//
// A \u escape of a lone surrogate is legal JSON, so Parse accepts it. The escape decodes to U+FFFD,
// as in encoding/json. The edge parses requests with Options.Paired, which rejects these escapes.
// Some engines' parsers reject them, and other engines fail when they encode the string.
// ReplaceLoneSurrogates replaces the escapes with U+FFFD in texts that come from an engine.
//
// Parse also limits the depth, the number of members in each object, and the number of nodes on the
// tape (see Options and MaxMembers). The cost of parsing a body is therefore linear in its length.
// Parse validates numbers without evaluating them, and Int and Float take linear time.
//
// # Duplicates
//
// If two members have the same name, some readers use the first and others the last. Go's decoder
// reads "Model" as "model", and at least one engine uses this decoder. A proxy that bases a
// decision on a member and forwards the body must reject exact duplicates and case variants.
// Otherwise the engine might use a value other than the one that the proxy checked. Fields checks
// the requested names after decoding escapes. It does not check other names: the edge forwards
// them, and the engine interprets them.
//
// # Design
//
// These are times in µs, measured on an otherwise idle machine (AMD EPYC, Go 1.26):
//
//	                     Parse   encoding/json.Valid
//	chat body, 1 KB        0.3                   2.7
//	prose, 100 KB            8                   216
//	image, 1 MB             19                 2,024
//	Chinese, 100 KB         20                   202
//	German, 100 KB          18                   203
//
// Parse is faster even though it also checks UTF-8 and records positions. The reasons:
//
//   - Strings make up most of a body. Short strings are scanned eight bytes at a time in plain
//     integer arithmetic (see markSpecial). Long strings are scanned 64 bytes at a time with vector
//     instructions: AVX2 on amd64 (special_amd64.s) and NEON, which every arm64 has
//     (special_arm64.s). Both versions implement vectorText and use its look-up tables
//     (special_vector.go). They skip valid characters of any length and two-byte escapes. They stop
//     at a block that contains anything else, and report the position in the block. The times above
//     were measured with AVX2. NEON has only been tested in an emulator.
//   - Other processors, and amd64 without AVX2, scan strings 64 bytes at a time in words of eight
//     bytes (words.go). This code skips the same escapes and two-byte characters, without a branch
//     for each. It starts after eight plain bytes of a string or at a two-byte character. On amd64
//     it is slower than the vector code: twice as slow for prose and Chinese, three times for
//     German and Russian, four times for source code, and five times for an image.
//   - Tests check that the vector code and the word code return the same results as a byte-by-byte
//     scan, and that the vector code does not read beyond its blocks.
//   - On amd64, a fast loop compares blocks of ASCII and common escapes with a copy shifted by one
//     byte. It takes 27 instructions per block. Blocks that this loop cannot handle are examined
//     with masks, which takes a hundred instructions.
//   - The vector code has no branch that depends on where an escape or a character ends. Each
//     misprediction of such a branch costs 3 ns. Source code has an escape every six bytes, so 100
//     KB would take 54 µs instead of 16.
//   - A short token costs no more than storing its node. The scanner is a single function whose
//     states are labels, so its variables stay in registers. Nodes are written field by field,
//     because appending a composite literal made Parse up to twice as slow.
//   - Depth is limited, so the stack is a small array in the Doc. The edge does not read deeply
//     nested values, which are mainly tool schemas. They are validated but not recorded.
//
// Considered alternatives: fastjson (accepts control characters, bad escapes and invalid UTF-8),
// gjson (does not validate, and scans again for each look-up), sonic (compiles at run time and
// depends on Go versions), simdjson-go (assembly for one architecture, no UTF-8 check),
// encoding/json/v2 (still experimental).
//
// Only Float uses package unsafe. strconv parses only strings, and converting bytes to a string
// would copy them.
package jsonx
