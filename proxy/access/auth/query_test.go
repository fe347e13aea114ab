package auth

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// FuzzQuery checks CheckQuery against net/url. If net/url finds a parameter with a credential's
// name, the query must be rejected. If net/url parses the query and finds no such parameter, the
// query must pass.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"api_key=x", "%61pi%5Fkey=x", "key[]=x", "a[token]=x", "a=%zz", "a;key=1", "a=1&b=2", "key%3Da=x", "=key", "%5Bkey",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		err := CheckQuery([]byte(query))
		found, broken := false, false
		for _, pair := range strings.FieldsFunc(query, func(r rune) bool { return r == '&' || r == ';' }) {
			rawName, rawValue, _ := strings.Cut(pair, "=")
			name, err := url.QueryUnescape(rawName)
			value, err2 := url.QueryUnescape(rawValue)
			if err != nil || err2 != nil {
				broken = true
				continue // a malformed name may decode to anything, so both results are correct
			}
			found = found || isCredentialName(name) || HasValidChecksum(value) || HasValidChecksum(name)
		}
		switch {
		case found && !errors.Is(err, errCredentialInQuery):
			t.Fatalf("%q: a credential passes: %v", query, err)
		case broken && err == nil:
			t.Fatalf("%q: an undecodable query passes", query)
		case !found && !broken && err != nil:
			t.Fatalf("%q is refused: %v, want no error", query, err)
		}
	})
}

func isCredentialName(name string) bool {
	for _, piece := range append(strings.FieldsFunc(name, func(r rune) bool { return r == '[' || r == ']' }),
		strings.NewReplacer("[", "", "]", "").Replace(name)) {
		reduced := strings.Map(func(r rune) rune {
			if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
				return unicode.ToLower(r)
			}
			return -1
		}, piece)
		if _, ok := credentialNames[reduced]; ok {
			return true
		}
	}
	return false
}
