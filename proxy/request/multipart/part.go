package multipart

import (
	"bytes"

	"penstock/upstreams/http1/httptoken"
)

// Part is the head of a part.
type Part struct {
	Name string // 1 to 64 letters, digits and "-_.[]"
	File bool   // whether the part has a file name, which may be empty
	// Filename is a safe form of the file name. It contains at most the last 64 characters, and
	// everything except letters, digits and "-_." is replaced. If the client sent no file name,
	// Filename is empty.
	Filename string
	// ContentType is the media type without parameters. If it is missing or malformed, ContentType
	// is empty.
	ContentType string
}

const (
	maxName     = 64
	maxFilename = 64
)

func parsePartHeader(head []byte) (p Part, err error) {
	var named, typed bool
	for len(head) > 0 {
		end := bytes.Index(head, []byte("\r\n"))
		line := head[:end] //nolint:gocritic // head contains only complete lines
		head = head[end+2:]
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || !httptoken.IsToken(name) || !isPrintable(value) {
			return p, newError(ReasonBadHeader)
		}
		value = httptoken.TrimBlanks(value)
		switch {
		case httptoken.EqualFold(name, "content-disposition"):
			if named {
				return p, newError(ReasonBadHeader)
			}
			named = true
			if err := p.parseDisposition(value); err != nil {
				return p, err
			}
		case httptoken.EqualFold(name, "content-type"):
			if typed {
				return p, newError(ReasonBadHeader)
			}
			typed = true
			p.ContentType = mediaType(value)
		case httptoken.EqualFold(name, "content-transfer-encoding"):
			is := func(encoding string) bool { return httptoken.EqualFold(value, encoding) }
			if !is("binary") && !is("7bit") && !is("8bit") {
				return p, newError(ReasonTransferEncoded)
			}
		}
	}
	if p.Name == "" {
		return p, newError(ReasonNoName)
	}
	return p, nil
}

func (p *Part) parseDisposition(value []byte) error {
	kind, rest, _ := bytes.Cut(value, []byte{';'})
	if !httptoken.EqualFold(bytes.TrimRight(kind, " \t"), "form-data") {
		return newError(ReasonNoName)
	}
	var seen [3]bool // whether name, filename and filename* were seen
	for len(rest) > 0 {
		var name, value []byte
		var ok bool
		if name, value, rest, ok = parseParameter(rest, httptoken.IsToken[[]byte]); !ok {
			return newError(ReasonBadHeader)
		}
		which := -1
		switch {
		case httptoken.EqualFold(name, "name"):
			which = 0
			if !validName(value) {
				return newError(ReasonBadName)
			}
			p.Name = string(value)
		case httptoken.EqualFold(name, "filename"):
			which = 1
			p.File, p.Filename = true, safeFilename(value)
		case httptoken.EqualFold(name, "filename*"):
			which = 2
			p.File = true
			if !seen[1] { // filename takes precedence over filename*
				p.Filename = safeFilename(value[bytes.LastIndexByte(value, '\'')+1:])
			}
		case bytes.IndexByte(name, '*') >= 0: // continuation of a parameter (RFC 2231)
			return newError(ReasonBadHeader)
		}
		if which >= 0 {
			if seen[which] { //nolint:gosec // 0 to 2
				return newError(ReasonBadHeader)
			}
			seen[which] = true //nolint:gosec // 0 to 2
		}
	}
	return nil
}

// validName accepts the characters that field names usually contain. Two parsers could interpret
// other characters differently.
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

// safeFilename returns the last element of a path. It replaces every character that a shell, a file
// system or a parser could interpret. Engines need only the extension, such as ".wav".
func safeFilename(b []byte) string {
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

// mediaType returns a media type without its parameters. If the media type is malformed, it returns
// "".
func mediaType(value []byte) string {
	value, _, _ = bytes.Cut(value, []byte{';'})
	value = bytes.TrimRight(value, " \t")
	a, b, _ := bytes.Cut(value, []byte{'/'})
	if !httptoken.IsToken(a) || !httptoken.IsToken(b) || len(value) > 127 {
		return ""
	}
	return string(value)
}

func isPrintable(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
