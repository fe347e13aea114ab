// Package multipart reads multipart/form-data bodies as they come. It holds one buffer and writes
// no file.
//
// A Reader yields the parts one after the other: Next finds a part and reads its head, and Read
// yields its body. Boundary extracts the boundary from a Content-Type.
//
// # What is accepted
//
// Uploads come from other people's programs and pass other people's filters, so the reader refuses
// everything that two parsers could read in two ways (RFC 2046, 5.1.1; RFC 7578):
//
//   - Lines end in CR LF. The body begins with the first delimiter, or an empty line before it.
//   - What follows a delimiter is CR LF or, for the last one, "--" and nothing but line ends. A
//     delimiter followed by anything else is neither content nor a boundary.
//   - A part has at most MaxHeader bytes of head; its lines are not folded, its names are tokens.
//     It has one Content-Disposition, form-data, with one name of letters, digits and "-_.[]"; one
//     Content-Type at most; and a body that is not encoded.
//   - There are at most MaxParts parts.
//
// # Design
//
// The standard library's reader (mime/multipart, NextRawPart) does not enforce these rules, and its
// user cannot check them: it reports neither the bytes of a head nor those around a delimiter, and
// has read up to 4 KiB beyond them. TestStandardReaderIsLooser shows what it accepts. When that
// test fails, this reader can go.
//
//   - A delimiter followed by padding, or the first one with a bare line feed.
//   - A delimiter followed by anything else, which it reads as content.
//   - The delimiter of a part's own line as its body, which it reads as an empty one.
//   - Lines of a head that are folded, or that end in a bare line feed.
//   - A body that continues after the last boundary, or does not begin with the first.
//   - Heads of up to 10 MiB.
//
// The standard reader accepts everything that is accepted here, with the same names and the same
// bytes: FuzzReader checks this. A body is searched for the delimiter once, with bytes.Index. The
// reader remembers what it has searched, so that small reads do not search again.
package multipart
