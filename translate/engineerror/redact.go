package engineerror

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"penstock/translate"
)

// redactMessage replaces addresses, absolute paths and anything that looks like a key.
func redactMessage(s string) string {
	var b strings.Builder
	follows := secretNone // the kind of secret that the preceding word announces
	for len(s) > 0 {
		n := strings.IndexFunc(s, isWordBreak)
		if n < 0 {
			n = len(s)
		}
		word := s[:n]
		if name, value, ok := strings.Cut(word, ":"); ok && value != "" && announcedSecret(name) != secretNone {
			b.WriteString(name)
			b.WriteByte(':')
			word, follows = value, announcedSecret(name)
		}
		switch {
		case word == "" || word == ":":
			b.WriteString(word)
		case follows.matches(word):
			b.WriteString(redactedKey)
			b.WriteString(word[len(strings.TrimRight(word, ".:")):])
			follows = secretNone
		default:
			b.WriteString(redactWord(word))
			follows = announcedSecret(strings.TrimSuffix(word, ":"))
		}
		if n < len(s) {
			_, size := utf8.DecodeRuneInString(s[n:])
			b.WriteString(s[n : n+size])
			n += size
		}
		s = s[n:]
	}
	return b.String()
}

type secretKind uint8

const (
	secretNone        secretKind = iota
	secretCredentials            // after the name of an authorization header or of the scheme Bearer
	secretBasicScheme            // base64 may follow, or an ordinary word, as in "basic usage"
	secretNamed                  // after the name of a secret; ordinary text may also follow
)

func announcedSecret(name string) secretKind {
	if len(name) > 24 {
		return secretNone
	}
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	switch plain {
	case "bearer", "authorization", "proxyauthorization":
		return secretCredentials
	case "basic":
		return secretBasicScheme
	case "apikey", "xapikey", "apitoken", "authtoken", "accesstoken", "accesskey", "secretkey",
		"clientsecret", "secret", "password":
		return secretNamed
	}
	return secretNone
}

func (a secretKind) matches(word string) bool {
	n := 0
	for n < len(word) && (isKeyByte(word[n]) || strings.IndexByte(".*+/~", word[n]) >= 0) {
		n++
	}
	n = len(strings.TrimRight(word[:n], "."))
	switch a {
	case secretCredentials:
		return n >= minTokenLen
	case secretBasicScheme, secretNamed:
		return n >= minPlainKeyLen && (looksRandom(word[:n]) || n >= minUnbrokenLen && !strings.ContainsAny(word[:n], "-_."))
	case secretNone:
	}
	return false
}

// looksRandom reports whether word contains both digits and letters, or an upper-case letter after
// a lower-case one.
func looksRandom(word string) bool {
	digit, letter, small := false, false, false
	for i := range len(word) {
		switch c := word[i]; {
		case '0' <= c && c <= '9':
			digit = true
		case 'a' <= c && c <= 'z':
			small, letter = true, true
		case 'A' <= c && c <= 'Z':
			if small {
				return true
			}
			letter = true
		}
	}
	return digit && (letter || len(word) >= minTokenLen)
}

func isWordBreak(r rune) bool { return strings.ContainsRune(" \"'`()[]{}<>,;=|", r) }

func redactWord(w string) string {
	switch {
	case strings.Contains(w, "://"), startsWithAddress(w), isIPv6(w), strings.HasPrefix(w, "localhost:"), isPrivateHost(w):
		return "[address]"
	case strings.HasPrefix(w, "/") && strings.Count(w, "/") > 1 && !strings.HasPrefix(w, "/v1/"):
		return "[path]"
	case len(w) > 3 && w[1] == ':' && w[2] == '\\':
		return "[path]"
	}
	return redactKeys(w)
}

const (
	redactedKey    = "[key]"
	minTokenLen    = 16 // minimum length of a token after "Bearer"; shorter text is probably a word
	minPlainKeyLen = 8  // minimum length of a key after sk- or after a word that announces it
	// minUnbrokenLen is longer than any word without hyphens or similar characters.
	minUnbrokenLen = 24
)

// redactKeys replaces keys. A key consists of a known prefix and a minimum number of key
// characters. No letter or digit may precede a key.
func redactKeys(w string) string {
	if len(w) < 7 {
		return w
	}
	var b strings.Builder
	from := 0 // start of the text not yet copied to b
	for i := 0; i < len(w); i++ {
		if i > 0 && isKeyByte(w[i-1]) {
			continue
		}
		if n := secretKeyLengthAt(w[i:]); n > 0 {
			b.WriteString(w[from:i])
			b.WriteString(redactedKey)
			from = i + n
			i = from - 1
		}
	}
	if from == 0 {
		return w
	}
	b.WriteString(w[from:])
	return b.String()
}

func secretKeyLengthAt(s string) int {
	for _, p := range secretKeyPrefixes {
		if !strings.HasPrefix(s, p.text) {
			continue
		}
		n := secretKeyLength(s[len(p.text):])
		body := s[len(p.text) : len(p.text)+n]
		digits, unbroken := strings.ContainsAny(body, "0123456789*"), !strings.ContainsAny(body, "-_.")
		if n >= p.least && digits || p.text == "sk-" && n >= minPlainKeyLen || n >= minUnbrokenLen && unbroken {
			return len(p.text) + n
		}
	}
	return 0
}

// secretKeyLength returns the length of the key at the start of s, without trailing full stops.
func secretKeyLength(s string) int {
	n := 0
	for n < len(s) && (isKeyByte(s[n]) || s[n] == '.' || s[n] == '*') {
		n++
	}
	return len(strings.TrimRight(s[:n], "."))
}

func isKeyByte(c byte) bool { return isNameLetter(c) || c == '-' || c == '_' }

func isNameLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c >= utf8.RuneSelf
}

// RedactSecret removes a secret that the engine received with the request. Short secrets are not
// removed, because the key of an engine without authentication is often a word (EMPTY, none).
func (e *Error) RedactSecret(secret string) {
	if len(secret) < minPlainKeyLen || e.Message == "" && e.Type == "" && e.Code == "" {
		return
	}
	e.Message = strings.ReplaceAll(e.Message, secret, redactedKey)
	for n := len(secret) - 1; n >= minPlainKeyLen; n-- { // the message may be truncated within the secret
		if text, found := strings.CutSuffix(e.Message, secret[:n]); found {
			e.Message = text + redactedKey
			break
		}
	}
	if strings.Contains(e.Type, secret) {
		e.Type = ""
	}
	if strings.Contains(e.Code, secret) {
		e.Code = ""
	}
}

// isPrivateHost reports whether w is a host name in a private network. It ignores quotation marks
// and punctuation around w. Names in public domains look like file and model names, so they are not
// redacted.
func isPrivateHost(w string) bool {
	name := strings.ToLower(strings.Trim(w, `.:!?'"`))
	for _, domain := range translate.PrivateDNSSuffixes {
		if host, ok := strings.CutSuffix(name, "."+domain); ok && host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" {
			return true
		}
	}
	return false
}

// startsWithAddress reports whether w starts with four numbers and three dots, like an IPv4
// address, or is a host name with a port.
func startsWithAddress(w string) bool {
	part, dots := 0, 0
	for i := range len(w) {
		switch c := w[i]; {
		case '0' <= c && c <= '9':
			part++
		case c == '.' && part > 0 && part < 4:
			dots, part = dots+1, 0
		default:
			return dots == 3 && part > 0 && part < 4 || isHostPort(w)
		}
	}
	return dots == 3 && part > 0 && part < 4
}

// isIPv6 reports whether w is an IPv6 address, possibly with a zone. It ignores punctuation at the
// end.
func isIPv6(w string) bool {
	a, err := netip.ParseAddr(strings.TrimRight(w, ".:"))
	return err == nil && a.Is6()
}

// isHostPort recognizes names with a port, such as gpu-a.example.internal:8000.
func isHostPort(w string) bool {
	host, port, ok := strings.Cut(w, ":")
	if !ok || !strings.Contains(host, ".") {
		return false
	}
	port = strings.TrimRight(port, ".:")
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1<<16
}
