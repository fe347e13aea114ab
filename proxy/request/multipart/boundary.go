package multipart

import (
	"bytes"

	"penstock/upstreams/http1/httptoken"
)

const maxBoundary = 70 // maximum length of a boundary (RFC 2046, 5.1.1)

// ParseBoundary returns the boundary in a Content-Type. It returns an *Error if the type is not
// multipart/form-data, or if the boundary is missing, duplicate or malformed.
func ParseBoundary(contentType []byte) (string, error) {
	kind, rest, _ := bytes.Cut(contentType, []byte{';'})
	if !httptoken.EqualFold(bytes.TrimSpace(kind), "multipart/form-data") {
		return "", newError(ReasonNotForm)
	}
	boundary, found := "", false
	for len(rest) > 0 {
		var name, value []byte
		var ok bool
		if name, value, rest, ok = parseParameter(rest, validBoundary); !ok {
			return "", newError(ReasonBadBoundary)
		}
		if !httptoken.EqualFold(name, "boundary") {
			continue
		}
		if found || !validBoundary(value) {
			return "", newError(ReasonBadBoundary)
		}
		boundary, found = string(value), true
	}
	if !found {
		return "", newError(ReasonNoBoundary)
	}
	return boundary, nil
}

// validBoundary checks that b uses the alphabet of RFC 2046. It rejects spaces, which are valid but
// never used.
func validBoundary(b []byte) bool {
	if len(b) == 0 || len(b) > maxBoundary {
		return false
	}
	for _, c := range b {
		if !isAlphanumeric(c) && bytes.IndexByte([]byte("'()+_,-./:=?"), c) < 0 {
			return false
		}
	}
	return true
}

// parseParameter parses one "name=value" and the semicolon after it. A quoted value is returned
// without its quotes, but its escapes are not decoded. plain reports whether an unquoted value is
// valid. The value may be something other than a token (RFC 2045), because many clients send
// boundaries that are not tokens.
func parseParameter(in []byte, plain func([]byte) bool) (name, value, rest []byte, ok bool) {
	in = trimLeft(in)
	if len(in) == 0 { // the input ended with "; "
		return nil, nil, nil, true
	}
	eq := bytes.IndexByte(in, '=')
	if eq <= 0 || !httptoken.IsToken(in[:eq]) {
		return nil, nil, nil, false
	}
	name, in = in[:eq], in[eq+1:]
	if len(in) > 0 && in[0] == '"' {
		end := 1
		for end < len(in) && in[end] != '"' {
			if in[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(in) {
			return nil, nil, nil, false
		}
		value, rest = in[1:end], trimLeft(in[end+1:])
		if len(rest) == 0 {
			return name, value, nil, true
		}
		return name, value, rest[1:], rest[0] == ';'
	}
	value, rest, _ = bytes.Cut(in, []byte{';'})
	value = bytes.TrimRight(value, " \t")
	return name, value, rest, plain(value)
}

func trimLeft(b []byte) []byte { return bytes.TrimLeft(b, " \t") }

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
