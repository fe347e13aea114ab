package sse

import "bytes"

// AppendEvent appends an event: a line with the name unless the name is empty, one line for each
// line of data, and a blank line. A "\r", a "\n" or both together separate lines in data. The name
// must not contain either. AppendEvent drops the name from the first such byte on, because readers
// would take the rest for another field.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	for i := range len(name) {
		if name[i] == '\n' || name[i] == '\r' {
			name = name[:i]
			break
		}
	}
	if name != "" {
		dst = append(dst, "event: "...)
		dst = append(dst, name...)
		dst = append(dst, '\n')
	}
	return append(appendLines(dst, "data: ", data), '\n')
}

// Flatten turns the line ends of a JSON text into spaces, in place, so that it fits on one data
// line. Not every client joins several data lines. In JSON a line end can only be space between
// tokens.
func Flatten(json []byte) {
	for _, end := range [...]byte{'\n', '\r'} {
		for rest := json; ; {
			i := bytes.IndexByte(rest, end)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// AppendComment appends a comment, which clients ignore, to keep a silent stream alive. The comment
// is complete, but must not come between the lines of an event. Line ends in text are treated as in
// AppendEvent.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

func appendLines(dst []byte, prefix string, text []byte) []byte {
	for lf, known := 0, false; ; {
		if !known { // once for each line feed, regardless of how many carriage returns precede it
			if lf = bytes.IndexByte(text, '\n'); lf < 0 {
				lf = len(text)
			}
		}
		line, skip := text[:lf], lf+1
		if cr := bytes.IndexByte(line, '\r'); cr >= 0 {
			line, skip = line[:cr], cr+1
			if skip == lf && lf < len(text) {
				skip++
			}
		}
		dst = append(append(append(dst, prefix...), line...), '\n')
		if skip > len(text) {
			return dst
		}
		known = skip <= lf
		text, lf = text[skip:], lf-skip
	}
}
