package chat

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What of an engine's message is blotted out or named otherwise before a client sees it.

// blot replaces addresses, absolute paths and what looks like a key.
func blot(s string) string {
	var b strings.Builder
	follows := noSecret // what the words before announce
	for len(s) > 0 {
		n := strings.IndexFunc(s, isBreak)
		if n < 0 {
			n = len(s)
		}
		word := s[:n]
		if name, value, ok := strings.Cut(word, ":"); ok && value != "" && announces(name) != noSecret {
			b.WriteString(name)
			b.WriteByte(':')
			word, follows = value, announces(name)
		}
		switch {
		case word == "" || word == ":":
			b.WriteString(word)
		case follows.is(word):
			b.WriteString(blottedKey)
			b.WriteString(word[len(strings.TrimRight(word, ".:")):])
			follows = noSecret
		default:
			b.WriteString(blotWord(word))
			follows = announces(strings.TrimSuffix(word, ":"))
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

// announcement is what a word says of the next one.
type announcement uint8

const (
	noSecret    announcement = iota
	credentials              // which stand behind the name of an HTTP header or its scheme
	basicScheme              // what follows is Base64, or a word as in "basic usage"
	secret                   // behind the name of a secret, where a text about it may go on as well
)

// announces returns what the name says of the word behind it.
func announces(name string) announcement {
	if len(name) > 24 {
		return noSecret
	}
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
	switch plain {
	case "bearer", "authorization", "proxyauthorization":
		return credentials
	case "basic":
		return basicScheme
	case "apikey", "xapikey", "apitoken", "authtoken", "accesstoken", "accesskey", "secretkey", "clientsecret", "secret", "password":
		return secret
	}
	return noSecret
}

// is reports whether the word is what a announces.
func (a announcement) is(word string) bool {
	n := 0
	for n < len(word) && (isKeyByte(word[n]) || strings.IndexByte(".*+/~", word[n]) >= 0) {
		n++
	}
	n = len(strings.TrimRight(word[:n], "."))
	switch a {
	case credentials:
		return n >= leastToken
	case basicScheme, secret:
		return n >= leastPlain && (looksRandom(word[:n]) || n >= leastUnbroken && !strings.ContainsAny(word[:n], "-_."))
	case noSecret:
	}
	return false
}

// looksRandom reports whether a word has digits among letters, or capitals behind small letters.
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
	return digit && (letter || len(word) >= leastToken)
}

// isBreak reports whether r ends a word in which an address or a path may stand.
func isBreak(r rune) bool { return strings.ContainsRune(" \"'`()[]{}<>,;=|", r) }

func blotWord(w string) string {
	switch {
	case strings.Contains(w, "://"), startsWithIP(w), isIPv6(w), strings.HasPrefix(w, "localhost:"):
		return "[address]"
	case strings.HasPrefix(w, "/") && strings.Count(w, "/") > 1 && !strings.HasPrefix(w, "/v1/"):
		return "[path]"
	case len(w) > 3 && w[1] == ':' && w[2] == '\\':
		return "[path]"
	}
	return blotKeys(w)
}

const (
	blottedKey = "[key]"
	leastToken = 16 // characters behind "Bearer"; fewer are more likely a word
	leastPlain = 8  // characters of a key without a digit, where its prefix is no part of a word
	// leastUnbroken is how many letters without a hyphen or the like are no word.
	leastUnbroken = 24
)

// keyPrefixes are what keys of engines and of services begin with, and how many characters must
// follow, one of them a digit.
var keyPrefixes = []struct {
	text  string
	least int
}{
	{"sk-", 4},
	{"sk_", 12},
	{"hf_", 12},
	{"gsk_", 12},
	{"xoxa-", 8},
	{"xoxb-", 8},
	{"xoxe-", 8},
	{"xoxp-", 8},
	{"xoxs-", 8},
	{"xapp-", 8},
	{"xai-", 12},
	{"nvapi-", 12},
	{"ghp_", 12},
	{"github_pat_", 12},
	{"glpat-", 12},
	{"AIza", 12},
	{"AKIA", 12},
	{"eyJ", 16},
	{"pstk_", 4},
	{"pplx-", 12},
	{"r8_", 12},
	{"tgp_", 12},
	{"fw_", 12},
	{"csk-", 12},
}

// blotKeys replaces what looks like a key within a word: a prefix of keys, not in the middle of
// letters and digits, and enough of what keys consist of.
func blotKeys(w string) string {
	if len(w) < 7 {
		return w
	}
	var b strings.Builder
	from := 0 // of what is not in b
	for i := 0; i < len(w); i++ {
		if i > 0 && isKeyByte(w[i-1]) {
			continue
		}
		if n := keyAt(w[i:]); n > 0 {
			b.WriteString(w[from:i])
			b.WriteString(blottedKey)
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

// keyAt returns the length of the key that s begins with, 0 if that is none.
func keyAt(s string) int {
	for _, p := range keyPrefixes {
		if !strings.HasPrefix(s, p.text) {
			continue
		}
		n := keyLength(s[len(p.text):])
		body := s[len(p.text) : len(p.text)+n]
		if n >= p.least && strings.ContainsAny(body, "0123456789*") || p.text == "sk-" && n >= leastPlain || n >= leastUnbroken && !strings.ContainsAny(body, "-_.") {
			return len(p.text) + n
		}
	}
	return 0
}

// keyLength returns how many characters of a key s begins with. A stop at the end is the
// sentence's.
func keyLength(s string) int {
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

// Redact blots a secret of the edge's own out of what the engine says, which it got with the request. One that is
// short is a word (EMPTY, none) that engines without authentication are given.
func (e *EngineError) Redact(secret string) {
	if len(secret) < leastPlain || e.Message == "" && e.Type == "" && e.Code == "" {
		return
	}
	e.Message = strings.ReplaceAll(e.Message, secret, blottedKey)
	for n := len(secret) - 1; n >= leastPlain; n-- { // the message may be cut within it
		if text, found := strings.CutSuffix(e.Message, secret[:n]); found {
			e.Message = text + blottedKey
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

// Rename puts the public name of a model in the place of its engine's own in what the engine says,
// so that no client hears of a name that it cannot use. Only the whole name counts, not one within
// a longer name. One that might be an ordinary word counts in quotes alone, and one of a letter or
// two never.
func (e *EngineError) Rename(served, public string) {
	if len(served) < 3 || served == public || !strings.Contains(e.Message, served) {
		return
	}
	word := !looksLikeName(served)
	var b strings.Builder
	for s, before := e.Message, byte(' '); ; {
		i := strings.Index(s, served)
		if i < 0 {
			b.WriteString(s)
			break
		}
		if i > 0 {
			before = s[i-1]
		}
		rest := s[i+len(served):]
		b.WriteString(s[:i])
		if whole := endsName(before, rest); whole && (!word || isQuote(before) && rest != "" && isQuote(rest[0])) {
			b.WriteString(public)
		} else {
			b.WriteString(served)
		}
		s, before = rest, served[len(served)-1]
	}
	e.Message = cutMessage(b.String())
}

// looksLikeName reports whether a model's name is hardly a word or a number of a sentence: it has
// letters, and something beside them.
func looksLikeName(s string) bool {
	letter, other := false, false
	for i := range len(s) {
		if c := s[i]; 'a' <= c|0x20 && c|0x20 <= 'z' {
			letter = true
		} else {
			other = true
		}
	}
	return letter && other
}

// endsName reports whether a name between before and rest is a whole one. The stop or colon behind
// which a sentence or a line goes on is no part of it.
func endsName(before byte, rest string) bool {
	if isNameByte(before) {
		return false
	}
	rest = strings.TrimLeft(rest, ".:")
	return rest == "" || !isNameByte(rest[0])
}

func isNameByte(c byte) bool {
	return isNameLetter(c) || strings.IndexByte("-_./:@+", c) >= 0
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// startsWithIP reports whether w starts with four numbers and three dots, as an IPv4 address does,
// or is a host name with a port.
func startsWithIP(w string) bool {
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

// isIPv6 reports whether w is an IPv6 address, maybe with a zone, a port, or a stop behind it.
func isIPv6(w string) bool {
	a, err := netip.ParseAddr(strings.TrimRight(w, ".:"))
	return err == nil && a.Is6()
}

// isHostPort recognises gpu-a.example.internal:8000.
func isHostPort(w string) bool {
	host, port, ok := strings.Cut(w, ":")
	if !ok || !strings.Contains(host, ".") {
		return false
	}
	port = strings.TrimRight(port, ".:")
	n, err := strconv.Atoi(port)
	return err == nil && n > 0 && n < 1<<16
}
