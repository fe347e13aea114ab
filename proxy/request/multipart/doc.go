// Package multipart reads multipart/form-data bodies while they arrive. It uses one buffer and no
// files.
//
// # What is accepted
//
// Uploads come from many different clients, and other programs may have parsed and filtered them
// before the edge does. The reader therefore rejects everything that two parsers could interpret
// differently (RFC 2046, 5.1.1; RFC 7578):
//
//   - Lines end in CR LF. The body starts with the first delimiter or with an empty line before it.
//   - A delimiter is followed by CR LF. The last delimiter is followed by "--" and, after that,
//     only by line ends. Anything else after a delimiter is rejected.
//   - The head of a part has at most MaxHeader bytes. Its lines are not folded, and its names are
//     tokens. It contains exactly one Content-Disposition, which is form-data. The name of the part
//     consists of letters, digits and "-_.[]". The head contains at most one Content-Type, and no
//     encoding that changes the body.
//   - There are at most MaxParts parts.
//
// # Design
//
// The reader in the standard library (mime/multipart, NextRawPart) does not enforce these rules,
// and a caller cannot check them. The standard reader exposes neither the bytes of a part's head
// nor the bytes around a delimiter, and may already have read another 4 KiB.
// TestStandardReaderIsLooser shows what the standard reader accepts. If that test fails because the
// standard reader has become strict, this package can be replaced.
//
// The standard reader accepts everything that this reader accepts, and returns the same names and
// bytes (FuzzReader). Even if the reads are small, each byte of a body is searched for the
// delimiter only once, with bytes.Index.
package multipart
