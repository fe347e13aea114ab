package enduser

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/config/testkit/raced"
	"penstock/proxy/telemetry/observe"
)

const secret = "a-secret-of-enough-characters-for-it"

// hashOf computes the same hash as: printf %s ID | openssl dgst -sha256 -hmac SECRET | head -c 32
func hashOf(id string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(id))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

func namer(header string) *Hasher {
	return New(&config.EndUsers{Secret: secret, Header: header})
}

// TestHashRequest checks which header or member names the end user, and that invalid values are
// ignored.
func TestHashRequest(t *testing.T) {
	long := strings.Repeat("x", MaxID)
	for _, c := range []struct{ name, header, body, want string }{
		{"chat", "", `{"model":"m","user":"alice"}`, "alice"},
		{"safety_identifier before user", "", `{"user":"a","safety_identifier":"b"}`, "b"},
		{"messages", "", `{"metadata":{"x":1,"user_id":"alice"},"messages":[{"user":"no"}]}`, "alice"},
		{"user before metadata", "", `{"metadata":{"user_id":"a"},"user":"b"}`, "b"},
		{"an empty id names none", "", `{"safety_identifier":"","user":null,"metadata":{"user_id":"c"}}`, "c"},
		{"escapes are decoded", "", `{"us\u0065r":"\u0061\n\"\ud83d\ude00"}`, "a\n\"😀"},
		{"half a pair", "", `{"user":"a\ud83d"}`, "a\uFFFD"},
		{"the header precedes the body", "alice", `{"user":"bob"}`, "alice"},
		{"an empty header names none", "", `{"user":"bob"}`, "bob"},
		{"a header alone", "alice", ``, "alice"},
		{"a header and nonsense", "alice", `{"user":`, "alice"},
		{"the longest", "", `{"user":"` + long + `"}`, long},
		{"the longest, escaped", "", `{"user":"` + strings.Repeat(`\u0078`, MaxID) + `"}`, long},
		{"a longer one", "", `{"user":"` + long + `x","metadata":{"user_id":"c"}}`, ""},
		{"a huge one", "", `{"user":"` + strings.Repeat("x", 1<<20) + `"}`, ""},
		{"a longer header", long + "x", `{"user":"bob"}`, ""},
		{"no string", "", `{"user":{"user":"a"},"safety_identifier":7,"metadata":"user_id"}`, ""},
		{"twice", "", `{"user":"a","user":"b"}`, ""},
		{"twice, in another case", "", `{"user":"a","User":"b"}`, ""},
		{"twice inside", "", `{"metadata":{"user_id":"a","user_id":"b"}}`, ""},
		{"deeper", "", `{"metadata":{"user":{"user_id":"a"}}}`, ""},
		{"no object", "", `["user","a"]`, ""},
		{"nothing", "", ``, ""},
		{"cut", "", `{"user":"a"`, ""},
	} {
		n, h := namer("X-User-Id"), new(fasthttp.RequestHeader)
		if c.header != "" {
			h.Set("x-user-id", c.header)
		}
		var want string
		if c.want != "" {
			want = hashOf(c.want)
		} else {
			want = observe.EndUserHash{}.String()
		}
		for range 2 { // the reader must not contain data from the previous request
			if got := n.HashRequest(h, []byte(c.body)).String(); got != want {
				t.Errorf("%s: %s, want that of %q", c.name, got, c.want)
			}
		}
	}
	two := new(fasthttp.RequestHeader)
	two.Add("X-User-Id", "the client's")
	two.Add("x-user-id", "the proxy's")
	if got := namer("X-User-Id").HashRequest(two, []byte(`{"user":"bob"}`)); got != (observe.EndUserHash{}) {
		t.Errorf("two headers name %s", got)
	}
	h := new(fasthttp.RequestHeader)
	h.Set("X-User-Id", "alice")
	if got := namer("").HashRequest(h, []byte(`{"user":"bob"}`)).String(); got != hashOf("bob") {
		t.Error("a header is read that is not named")
	}
	if New(&config.EndUsers{}) != nil {
		t.Error("an end user is named without a secret")
	}
}

// TestSecretsDiffer checks that a different secret yields a different hash.
func TestSecretsDiffer(t *testing.T) {
	h, body := new(fasthttp.RequestHeader), []byte(`{"user":"alice"}`)
	a := namer("").HashRequest(h, body)
	if b := New(&config.EndUsers{Secret: secret + "2"}).HashRequest(h, body); a == b || b == (observe.EndUserHash{}) {
		t.Errorf("names with two secrets = %s and %s, want two different names", a, b)
	}
}

// TestAllocs checks that HashRequest does not allocate once the pool contains a reader.
func TestAllocs(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector empties pools")
	}
	n, h, body := namer("X-User-Id"), new(fasthttp.RequestHeader), []byte(`{"model":"m","messages":[],"user":"alice\n"}`)
	if got := testing.AllocsPerRun(200, func() { n.HashRequest(h, body) }); got > 0.5 {
		t.Errorf("Of allocates %v times, want 0", got)
	}
}

// FuzzHashRequest checks that no body or header causes a failure, and that only ids of valid length
// yield a hash.
func FuzzHashRequest(f *testing.F) {
	f.Add("", []byte(`{"user":"a","safety_identifier":"b","metadata":{"user_id":"c"}}`))
	f.Add("alice", []byte(`{`))
	n := namer("X-User-Id")
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		h := new(fasthttp.RequestHeader)
		h.Set("X-User-Id", header)
		if a, b := n.HashRequest(h, body), n.HashRequest(h, body); a != b {
			t.Errorf("%s, and then %s", a, b)
		}
	})
}
