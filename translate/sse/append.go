package sse

import "bytes"

// AppendEvent appends an event: a line with its name, unless that is empty, one line for each line
// of data, and a blank one. A "\r" or "\n" in data, alone or together, separates lines. The name
// must not contain either; what follows one is dropped, because it would be read as another field.
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
// line: not every client puts several together again. In JSON a line end can only be space between
// tokens.
func Flatten(json []byte) {
	for _, end := range [...]byte{'\n', '\r'} {
		for {
			i := bytes.IndexByte(json, end)
			if i < 0 {
				break
			}
			json[i] = ' '
		}
	}
}

// AppendComment appends a comment, which clients ignore: a sign of life on a silent stream. It is
// complete in itself, but must not come between the lines of an event. Line ends in text are
// treated as in AppendEvent.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		dst = append(dst, prefix...)
		n := bytes.IndexByte(text, '\n')
		line := text
		if n >= 0 {
			line = text[:n]
		}
		if c := bytes.IndexByte(line, '\r'); c >= 0 {
			if n = c; c+1 < len(text) && text[c+1] == '\n' {
				n = c + 1
			}
			line = text[:c]
		}
		dst = append(append(dst, line...), '\n')
		if n < 0 {
			return dst
		}
		text = text[n+1:]
	}
}
