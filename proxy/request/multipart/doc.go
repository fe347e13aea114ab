// Package multipart reads multipart/form-data bodies while they arrive. It uses one buffer and no
// files.
//
// # What is accepted
//
// Uploads come from many different clients, and other programs may have parsed and filtered them
// before. The reader therefore refuses everything that two parsers could interpret differently (RFC
// 2046, 5.1.1; RFC 7578):
//
//   - Lines end in CR LF. The body starts with the first delimiter or with an empty line before it.
//   - A delimiter is followed by CR LF. The last delimiter is followed by "--" and then only line
//     ends. Anything else after a delimiter is refused.
//   - The head of a part has at most MaxHeader bytes. Its lines are not folded, and its names are
//     tokens. It has exactly one Content-Disposition, which is form-data. The name consists of
//     letters, digits and "-_.[]". It has at most one Content-Type, and no encoding that changes
//     the body.
//   - There are at most MaxParts parts.
//
// # Design
//
// The reader of the standard library (mime/multipart, NextRawPart) does not enforce these rules. A
// caller cannot check them either. The standard reader exposes neither the bytes of a head nor the
// bytes around a delimiter, and may already have read 4 KiB more. TestStandardReaderIsLooser shows
// what it accepts. If that test fails, this package can be replaced.
//
// The standard reader accepts everything that this reader accepts, with the same names and bytes
// (FuzzReader). Each byte of a body is searched for the delimiter only once, with bytes.Index, even
// if the reads are small.
package multipart
