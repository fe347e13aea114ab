package chat

import (
	"bytes"
	"slices"
	"strconv"

	"penstock/translate"
)

const maxURL = 8 << 10

// urlHost returns the host of an https URL, or a text that says what is wrong. rest is the URL
// after the scheme.
//
// The engine fetches the URL from within the operator's network and with a different parser.
// urlHost therefore rejects everything that two parsers could read differently: user names,
// backslashes, spaces, and escapes in the host. It also rejects localhost, and IP addresses in
// every spelling that a resolver may accept.
func urlHost(rest []byte) (host []byte, text string) {
	if len(rest) > maxURL {
		return nil, "must be shorter than 8 KiB, or a data URL"
	}
	for _, c := range rest {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return nil, "must be a URL in ASCII without blanks, control characters and backslashes; escape them with %"
		}
	}
	authority := rest
	if i := bytes.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if bytes.IndexByte(authority, '@') >= 0 {
		return nil, "must not hold a user name or a password"
	}
	host = authority
	if i := bytes.IndexByte(authority, ':'); i >= 0 && authority[0] != '[' {
		host = authority[:i]
		if !isPort(authority[i+1:]) {
			return nil, "must have a port between 1 and 65535, or none"
		}
	}
	if isLiteralHost(host) {
		return nil, "must name a public host; IP addresses and localhost are not accepted"
	}
	if !isHostName(host) {
		return nil, "must have a valid host name"
	}
	return host, ""
}

func isPort(s []byte) bool {
	n, err := strconv.ParseUint(string(s), 10, 16)
	return err == nil && n > 0
}

// isLiteralHost reports whether host may be localhost or an IP address in any spelling. Like a
// browser, it checks the last label, because no top-level domain is a number.
func isLiteralHost(host []byte) bool {
	if len(host) > 0 && host[0] == '[' {
		return true
	}
	host = bytes.TrimSuffix(host, []byte("."))
	last := host[bytes.LastIndexByte(host, '.')+1:]
	return isNumericLabel(last) || equalFold(last, "localhost") || equalFold(host, "localhost.localdomain")
}

func isNumericLabel(s []byte) bool {
	if hasFoldPrefix(s, "0x") {
		return len(bytes.Trim(s[2:], "0123456789abcdefABCDEF")) == 0
	}
	return len(s) > 0 && len(bytes.Trim(s, "0123456789")) == 0
}

// isHostName reports whether host is a DNS name. It tolerates underscores and one final dot.
func isHostName(host []byte) bool {
	if len(host) == 0 || len(host) > 254 {
		return false
	}
	for label := range bytes.SplitSeq(bytes.TrimSuffix(host, []byte(".")), []byte(".")) {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range label {
			if c != '-' && c != '_' && !('0' <= c && c <= '9') && !('a' <= c|0x20 && c|0x20 <= 'z') {
				return false
			}
		}
	}
	return true
}

// isPrivateName reports whether host is a name within a private network. This includes names
// without a dot, such as ip6-localhost.
func isPrivateName(host []byte) bool {
	host = bytes.TrimSuffix(host, []byte("."))
	return bytes.IndexByte(host, '.') < 0 || slices.ContainsFunc(translate.PrivateDNSSuffixes, func(domain string) bool {
		n := len(host) - len(domain)
		return n > 0 && host[n-1] == '.' && equalFold(host[n:], domain) || equalFold(host, domain)
	})
}

// hostRefusal returns what is wrong with the host of a URL that the engine would fetch, or "".
// what is the word for the content in the error, for example "images".
func (r *ModelRules) hostRefusal(host []byte, what string) string {
	switch {
	case host == nil || hostAllowed(r.ImageHosts, host):
		return ""
	case len(r.ImageHosts) > 0:
		return "names a host that " + what + " are not taken from; send it as a data URL"
	case isPrivateName(host):
		return "must name a public host; names of a private network are not accepted"
	}
	return ""
}

// hostAllowed reports whether hosts contains host. An entry is an exact name, or *.example.com for
// all names below example.com.
func hostAllowed(hosts []string, host []byte) bool {
	host = bytes.TrimSuffix(host, []byte("."))
	for _, h := range hosts {
		if len(h) > 2 && h[:2] == "*." {
			if n := len(host) - len(h) + 1; n > 0 && equalFold(host[n:], h[1:]) {
				return true
			}
		} else if equalFold(host, h) {
			return true
		}
	}
	return false
}

func equalFold(a []byte, b string) bool {
	return len(a) == len(b) && hasFoldPrefix(a, b)
}

func hasFoldPrefix(a []byte, prefix string) bool {
	if len(a) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		x, y := a[i], prefix[i]
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}
