package sse

import "bytes"

// AppendEvent appends an event. Lines of data may be separated by "\r", "\n" or "\r\n". The name is
// truncated at its first line end, because readers would read the text after it as another field.
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

// ReplaceLineEnds replaces the line ends of a JSON text with spaces, because some clients do not
// join data lines. In JSON, line ends occur only between tokens.
func ReplaceLineEnds(json []byte) {
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

// AppendComment appends a comment, which clients ignore, to keep an idle stream alive. A comment
// must not be written between the lines of an event.
func AppendComment(dst []byte, text string) []byte {
	return append(appendLines(dst, ": ", []byte(text)), '\n')
}

func appendLines(dst []byte, prefix string, text []byte) []byte {
	for lf, known := 0, false; ; {
		if !known { // each line feed is searched for only once, even in a text with many carriage returns
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
