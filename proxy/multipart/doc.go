// Package multipart reads multipart/form-data bodies as they come, holding one buffer and writing no file.
//
// A Reader yields the parts one after the other: Next finds a part and reads its head, Read yields its body. Boundary
// takes the boundary out of a Content-Type.
//
// # What is accepted
//
// Uploads come from other people's programs and go on to other people's parsers, so what two parsers could read in two
// ways is refused (RFC 2046, 5.1.1; RFC 7578):
//
//   - Lines end in CR LF. The body begins with the first delimiter, or with one empty line before it.
//   - What follows a delimiter is CR LF or, for the last one, "--" and nothing but line ends. A delimiter with anything else
//     behind it is neither content nor a boundary.
//   - A part has at most MaxHeader bytes of head; its lines are not folded and its names are tokens. It has one
//     Content-Disposition, form-data, with one name of letters, digits and "-_.[]"; one Content-Type at most; and a body that
//     is not encoded.
//   - There are at most MaxParts parts.
//
// # Design
//
// Own, because the standard library's reader takes line ends of either kind, folded and unbounded heads, a preamble and
// padding, and gives no bound on what it reads ahead; and because fasthttp's stores files on disk. The fuzz test holds the two
// together: whatever is accepted here is accepted there, with the same names and the same bytes. A body is searched for the delimiter
// once, with bytes.Index; what has been searched is remembered, so that small reads do not search again.
package multipart
