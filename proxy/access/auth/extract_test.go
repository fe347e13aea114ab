package auth

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"penstock/config/testkit/raced"
	"penstock/translate/apierr"
)

func headers(values ...string) (h CredentialHeader) {
	for _, v := range values {
		h.Add([]byte(v))
	}
	return h
}

// errorCode returns the status and code of err, which must be an API error. If err is nil, it
// returns "".
func errorCode(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *apierr.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is a %T, want *apierr.Error", err, err)
	}
	return fmt.Sprint(e.Status, " ", e.Code)
}

const (
	invalid  = "401 invalid_api_key"
	conflict = "401 credential_conflict"
	inQuery  = "401 credential_in_query"
	badQuery = "400 invalid_value"
)

func TestExtractHeaders(t *testing.T) {
	for _, c := range []struct {
		name          string
		authorization []string
		apiKey        []string
		key, err      string
	}{
		{name: "none"},
		{name: "bearer", authorization: []string{"Bearer k1"}, key: "k1"},
		{name: "scheme in any case", authorization: []string{"bEARER k1"}, key: "k1"},
		{name: "several spaces", authorization: []string{"Bearer    k1"}, key: "k1"},
		{name: "blanks around", authorization: []string{" \tBearer k1 \t"}, key: "k1"},
		{name: "x-api-key", apiKey: []string{"k1"}, key: "k1"},
		{name: "blanks around x-api-key", apiKey: []string{" k1\t"}, key: "k1"},
		{name: "both alike", authorization: []string{"Bearer k1"}, apiKey: []string{"k1"}, key: "k1"},
		{name: "any visible character", authorization: []string{"Bearer a!\"#~=/+._-"}, key: "a!\"#~=/+._-"},

		{name: "both differ", authorization: []string{"Bearer k1"}, apiKey: []string{"k2"}, err: conflict},
		{name: "both differ in case", authorization: []string{"Bearer k1"}, apiKey: []string{"K1"}, err: conflict},
		{name: "authorization twice", authorization: []string{"Bearer k1", "Bearer k1"}, err: conflict},
		{name: "authorization twice, one empty", authorization: []string{"Bearer k1", ""}, err: conflict},
		{name: "x-api-key twice", apiKey: []string{"k1", "k1"}, err: conflict},
		{name: "list of bearers", authorization: []string{"Bearer k1, Bearer k1"}, err: conflict},
		{name: "list of keys", authorization: []string{"Bearer k1,k2"}, err: conflict},
		{name: "list that starts with another scheme", authorization: []string{"Basic eA==, Bearer k1"}, err: conflict},
		{name: "list in x-api-key", apiKey: []string{"k1, k1"}, err: conflict},
		{name: "trailing comma", apiKey: []string{"k1,"}, err: conflict},

		{name: "empty authorization", authorization: []string{""}, err: invalid},
		{name: "empty x-api-key", apiKey: []string{""}, err: invalid},
		{name: "empty x-api-key beside a bearer", authorization: []string{"Bearer k1"}, apiKey: []string{""}, err: conflict},
		{name: "empty bearer beside an x-api-key", authorization: []string{"Bearer "}, apiKey: []string{"k1"}, err: conflict},
		{name: "empty authorization beside an x-api-key", authorization: []string{""}, apiKey: []string{"k1"}, err: conflict},
		{name: "both empty", authorization: []string{"Bearer"}, apiKey: []string{""}, err: invalid},
		{name: "scheme only", authorization: []string{"Bearer"}, err: invalid},
		{name: "scheme and spaces", authorization: []string{"Bearer   "}, err: invalid},
		{name: "no scheme", authorization: []string{"k1"}, err: invalid},
		{name: "basic", authorization: []string{"Basic azE6"}, err: invalid},
		{name: "basic beside a good x-api-key", authorization: []string{"Basic azE6"}, apiKey: []string{"k1"}, err: invalid},
		{name: "token scheme", authorization: []string{"Token k1"}, err: invalid},
		{name: "longer scheme", authorization: []string{"Bearers k1"}, err: invalid},
		{name: "glued", authorization: []string{"Bearerk1"}, err: invalid},
		{name: "tab for a space", authorization: []string{"Bearer\tk1"}, err: invalid},
		{name: "colon", authorization: []string{"Bearer: k1"}, err: invalid},
		{name: "junk behind", authorization: []string{"Bearer k1 k1"}, err: invalid},
		{name: "scheme twice", authorization: []string{"Bearer Bearer k1"}, err: invalid},
		{name: "scheme in x-api-key", apiKey: []string{"Bearer k1"}, err: invalid},
		{name: "control character", apiKey: []string{"k\x001"}, err: invalid},
		{name: "beyond ASCII", apiKey: []string{"kä"}, err: invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, present, err := ExtractCredential(&CredentialInput{Authorization: headers(c.authorization...), APIKey: headers(c.apiKey...)})
			if errorCode(t, err) != c.err || string(got.key) != c.key || present != (c.key != "") {
				t.Errorf("ExtractCredential = %q, %v, %v; want key %q, error %q", got.key, present, err, c.key, c.err)
			}
		})
	}
}

func TestExtractQuery(t *testing.T) {
	own, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ query, err string }{
		{"", ""},
		{"api-version=2024-06-01&limit=5", ""},
		{"a=key&b=api_key&c=token", ""},
		// Names that contain the name of a credential and more letters.
		{"monkey=1&keys=2&keyboard=3", ""},
		// Names that contain the name of a credential and more letters.
		{"max_tokens=5&tokenizer=x", ""},
		{"&&==&=&a", ""}, // unusual, but harmless
		{"beta=true&x=%F0%9F%98%80+y", ""},
		{strings.Repeat("key", 100), ""},    // too long for any of the names
		{strings.Repeat("a[", 100), ""},     // deeply nested, but harmless
		{"api_keyapi_keyapi_keyapi=1", ""},  // also too long after its separators are removed
		{"x=" + own[:len(own)-1] + "~", ""}, // not in the format of NewKey

		{"api_key=x", inQuery},
		{"api_key", inQuery},
		{"api_key=", inQuery},
		{"API-KEY=x", inQuery},
		{"apiKey=x", inQuery},
		{"a.p.i.k.e.y=x", inQuery},
		{"key=x", inQuery},
		{"token=x", inQuery},
		{"access_token=x", inQuery},
		{"X-Api-Key=x", inQuery},
		{"Authorization=Bearer%20x", inQuery},
		{"auth=x", inQuery},
		{"bearer=x", inQuery},
		{"secret=x", inQuery},
		{"password=x", inQuery},
		{"limit=5&api_key=x", inQuery},
		{"limit=5;api_key=x", inQuery},
		{"a=%26&api%5Fkey=x", inQuery},
		{"%61%70%69%5f%6b%65%79=x", inQuery},
		{"api%00key=x", inQuery},
		{"api+key=x", inQuery},
		{"+api_key=x", inQuery},
		{"%20key%20=x", inQuery},
		{"api_key[]=x", inQuery},
		{"api_key%5B%5D=x", inQuery},
		{"key[0]=x", inQuery},
		{"headers[Authorization]=x", inQuery},
		{"a[b][token]=x", inQuery},
		{"[key", inQuery},
		{"?api_key=x", inQuery},
		{"a=1&" + own, inQuery},
		{"note=" + own, inQuery},
		{"note=" + strings.Replace(own, "_", "%5f", 1), inQuery},
		{"key%3Da=x", ""}, // the name is "key=a"

		{"a=%", badQuery},
		{"a=%4", badQuery},
		{"a=%zz", badQuery},
		{"%zz=1", badQuery},
		{"a=%zz&b=1", badQuery},
		{"a=%zz&api_key=1", inQuery},
		{"api_key%zz=%zz", badQuery},
	} {
		for _, authorization := range []CredentialHeader{{}, headers("Bearer k1")} {
			_, present, err := ExtractCredential(&CredentialInput{Authorization: authorization, Query: []byte(c.query)})
			if errorCode(t, err) != c.err {
				t.Errorf("query %q: error %v, want %q", c.query, err, c.err)
			}
			if err != nil && present {
				t.Errorf("query %q: a credential beside an error", c.query)
			}
		}
	}
}

func TestExtractDoesNotAllocate(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	r := CredentialInput{Authorization: headers("Bearer k1"), APIKey: headers("k1"), Query: []byte("api-version=2024-06-01&x[y]=%20")}
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := ExtractCredential(&r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Extract allocates %v times", n)
	}
}

func TestCredentialNeverPrints(t *testing.T) {
	c := Credential{key: []byte("canary")}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if s := fmt.Sprintf(format, c); strings.Contains(s, "canary") {
			t.Errorf("%s prints %s, want no canary", format, s)
		}
	}
}

// FuzzAuthorization checks the parser against a second, slower parser.
func FuzzAuthorization(f *testing.F) {
	for _, s := range []string{"Bearer k", "bearer  k ", "Bearer a,b", "Basic k", "Bearer", "Bearer a b", "\tBearer\tk"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		c, present, err := ExtractCredential(&CredentialInput{Authorization: headers(string(value))})
		if present != (err == nil) {
			t.Fatalf("present %v beside error %v", present, err)
		}
		var want []byte
		v := strings.Trim(string(value), " \t")
		if scheme, key, ok := strings.Cut(v, " "); ok && strings.ToLower(scheme) == "bearer" && len(scheme) == 6 {
			want = []byte(strings.TrimLeft(key, " "))
		}
		for _, b := range want {
			if b < '!' || b > '~' || b == ',' {
				want = nil
				break
			}
		}
		if len(want) == 0 {
			want = nil
		}
		if !bytes.Equal(c.key, want) || present != (want != nil) {
			t.Fatalf("%q: key %q, want %q (error %v)", value, c.key, want, err)
		}
	})
}
