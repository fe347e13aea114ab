package multipart

import (
	"bytes"

	"penstock/upstreams/http1/httptoken"
)

// Part is the head of a part.
type Part struct {
	Name string // 1 to 64 letters, digits and "-_.[]"
	File bool   // the part has a file name, which may be empty
	// Filename is the name under which the file may be passed on: at most the last 64 characters,
	// all letters, digits and "-_."; other characters are replaced. It is empty if the client gave
	// no name.
	Filename string
	// ContentType is the media type without parameters. It is empty if missing or malformed.
	ContentType string
}

const (
	maxName     = 64
	maxFilename = 64
)

// parseHead parses the lines of a head. Each line has its CR LF.
func parseHead(head []byte) (p Part, err error) {
	var named, typed bool
	for len(head) > 0 {
		end := bytes.Index(head, []byte("\r\n"))
		line := head[:end] //nolint:gocritic // every line has its CR LF
		head = head[end+2:]
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !httptoken.IsToken(name) || !isPrintable(value) {
			return p, fault(BadHeader)
		}
		value = httptoken.TrimBlanks(value)
		switch {
		case httptoken.EqualFold(name, "content-disposition"):
			if named {
				return p, fault(BadHeader)
			}
			named = true
			if err := p.disposition(value); err != nil {
				return p, err
			}
		case httptoken.EqualFold(name, "content-type"):
			if typed {
				return p, fault(BadHeader)
			}
			typed = true
			p.ContentType = mediaType(value)
		case httptoken.EqualFold(name, "content-transfer-encoding"):
			is := func(encoding string) bool { return httptoken.EqualFold(value, encoding) }
			if !is("binary") && !is("7bit") && !is("8bit") {
				return p, fault(Encoded)
			}
		}
	}
	if p.Name == "" {
		return p, fault(NoName)
	}
	return p, nil
}

// disposition parses the value of a Content-Disposition.
func (p *Part) disposition(value []byte) error {
	kind, rest, _ := bytes.Cut(value, []byte{';'})
	if !httptoken.EqualFold(bytes.TrimRight(kind, " \t"), "form-data") {
		return fault(NoName)
	}
	var seen [3]bool // name, filename, filename*
	for len(rest) > 0 {
		var name, value []byte
		var ok bool
		if name, value, rest, ok = parameter(rest, httptoken.IsToken[[]byte]); !ok {
			return fault(BadHeader)
		}
		which := -1
		switch {
		case httptoken.EqualFold(name, "name"):
			which = 0
			if !validName(value) {
				return fault(BadName)
			}
			p.Name = string(value)
		case httptoken.EqualFold(name, "filename"):
			which = 1
			p.File, p.Filename = true, harmless(value)
		case httptoken.EqualFold(name, "filename*"):
			which = 2
			p.File = true
			if !seen[1] { // if both are present, the plain one counts
				p.Filename = harmless(value[bytes.LastIndexByte(value, '\'')+1:])
			}
		case bytes.IndexByte(name, '*') >= 0: // RFC 2231: names in pieces
			return fault(BadHeader)
		}
		if which >= 0 {
			if seen[which] { //nolint:gosec // 0 to 2
				return fault(BadHeader)
			}
			seen[which] = true //nolint:gosec // 0 to 2
		}
	}
	return nil
}

// validName accepts the usual characters of field names. Two parsers could read other names
// differently.
func validName(b []byte) bool {
	if len(b) == 0 || len(b) > maxName {
		return false
	}
	for _, c := range b {
		if !isAlphanumeric(c) && bytes.IndexByte([]byte("-_.[]"), c) < 0 {
			return false
		}
	}
	return true
}

// harmless returns the last element of a path, and replaces every character in it that a shell, a
// file system or a parser could interpret. Engines need only the file extension, such as ".wav".
func harmless(b []byte) string {
	b = b[bytes.LastIndexAny(b, `/\`)+1:]
	b = b[max(0, len(b)-maxFilename):]
	out := make([]byte, len(b))
	for i, c := range b {
		if !isAlphanumeric(c) && c != '-' && c != '_' && (c != '.' || i == 0) {
			c = '_'
		}
		out[i] = c
	}
	return string(out)
}

// mediaType returns a media type without its parameters.
func mediaType(value []byte) string {
	value, _, _ = bytes.Cut(value, []byte{';'})
	value = bytes.TrimRight(value, " \t")
	a, b, _ := bytes.Cut(value, []byte{'/'})
	if !httptoken.IsToken(a) || !httptoken.IsToken(b) || len(value) > 127 {
		return ""
	}
	return string(value)
}

// isPrintable accepts any bytes except control characters other than the tab.
func isPrintable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
