// Package multipart reads multipart/form-data bodies as they arrive. It holds one buffer and
// writes no file.
//
// A Reader returns the parts one after the other: Next finds a part and reads its head, and Read
// reads its body. Boundary extracts the boundary from a Content-Type.
//
// # What is accepted
//
// Uploads come from other people's programs and pass other people's filters, so the reader refuses
// everything that two parsers could read differently (RFC 2046, 5.1.1; RFC 7578):
//
//   - Lines end in CR LF. The body begins with the first delimiter, or an empty line before it.
//   - A delimiter is followed by CR LF or, if it is the last one, by "--" and only line ends. A
//     delimiter followed by anything else is neither content nor a boundary.
//   - The head of a part has at most MaxHeader bytes. Its lines are not folded, and its names are
//     tokens. It has one Content-Disposition, form-data, with one name of letters, digits and
//     "-_.[]", and at most one Content-Type. The body is not encoded.
//   - There are at most MaxParts parts.
//
// # Design
//
// The standard library's reader (mime/multipart, NextRawPart) does not enforce these rules, and a
// caller cannot check them: the reader reports neither the bytes of a head nor those around a
// delimiter, and may already have read 4 KiB further. TestStandardReaderIsLooser shows what it
// accepts. Once that test fails, this package's reader can be removed. The standard reader accepts:
//
//   - A delimiter followed by padding, or the first one with a bare line feed.
//   - A delimiter followed by anything else, which it reads as content.
//   - A body that is the delimiter on a line of its own, which it reads as an empty body.
//   - Lines of a head that are folded, or that end in a bare line feed.
//   - A body that continues after the last boundary, or does not begin with the first.
//   - Heads of up to 10 MiB.
//
// The standard reader also accepts everything that this reader accepts, with the same names and the
// same bytes; FuzzReader checks this. A body is searched for the delimiter only once, with
// bytes.Index: the reader remembers how far it has searched, so that small reads do not search
// again.
package multipart
