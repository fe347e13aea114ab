package auth

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"penstock/config"
	"penstock/config/testkit/raced"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func hashes(plain ...string) config.KeyHashes {
	var out config.KeyHashes
	for _, p := range plain {
		out = append(out, config.KeyHash{Hash: HashKey(p)})
	}
	return out
}

func mustRing(t testing.TB, keys ...config.Key) *KeyRing {
	t.Helper()
	r, err := NewKeyRing(keys, new(IssuerOptions))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFindUnread checks that an unknown key gets a 503 until all keys have been read. A known key
// must be accepted or rejected immediately.
func TestFindUnread(t *testing.T) {
	own, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	off := false
	r, err := NewKeyRing([]config.Key{{ID: "known", Hash: hashes("known")}, {ID: "off", Hash: hashes("off"), Active: &off}}, &IssuerOptions{Unread: true})
	if err != nil {
		t.Fatal(err)
	}
	for plain, want := range map[string]error{
		"known": nil, "off": errInvalidKey, "unknown": errKeysNotRead, own: errKeysNotRead, own + "x": errInvalidKey,
	} {
		if _, err := r.FindKey(Credential{key: []byte(plain)}, now); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func TestFind(t *testing.T) {
	own, ownHash, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	off := false
	r := mustRing(t,
		config.Key{ID: "own", Hash: config.KeyHashes{{Hash: ownHash}}},
		config.Key{ID: "any", Hash: hashes("any string")},
		config.Key{ID: "expired", Hash: hashes("expired"), Expires: now},
		config.Key{ID: "lasting", Hash: hashes("lasting"), Expires: now.Add(time.Nanosecond)},
		config.Key{ID: "off", Hash: hashes("off"), Active: &off},
		config.Key{ID: "rotated", Expires: now.Add(time.Hour), Hash: config.KeyHashes{
			{Hash: HashKey("old"), Expires: now.Add(-time.Second)},
			{Hash: HashKey("new")},
			{Hash: HashKey("later"), Expires: now.Add(2 * time.Hour)},
		}},
		config.Key{ID: "broken", Hash: hashes(KeyPrefix + "mine")},
	)
	for _, c := range []struct {
		plain, id string
		at        time.Time
	}{
		{plain: own, id: "own"},
		{plain: "any string", id: "any"},
		{plain: "lasting", id: "lasting"},
		{plain: "new", id: "rotated"},
		{plain: "later", id: "rotated"},
		{plain: "later", at: now.Add(time.Hour)}, // the key expires before this hash does
		{plain: "old"},
		{plain: "expired"},
		{plain: "expired", id: "expired", at: now.Add(-1)},
		{plain: "off"},
		{plain: "unknown"},
		{plain: ""},
		{plain: own[:len(own)-1]},
		{plain: own + "x"},
		{plain: KeyPrefix},
		{plain: KeyPrefix + "mine"}, // KeyPrefix without a valid checksum
	} {
		at := c.at
		if at.IsZero() {
			at = now
		}
		k, err := r.FindKey(Credential{key: []byte(c.plain)}, at)
		if c.id == "" {
			if k != nil || err != error(errInvalidKey) {
				t.Errorf("FindKey(%q) = %v, %v; want the one error", c.plain, k, err)
			}
			continue
		}
		if err != nil || k.ID != c.id {
			t.Errorf("FindKey(%q) = %v, %v; want %s", c.plain, k, err, c.id)
		}
	}
}

func TestRingContains(t *testing.T) {
	off := false
	before := mustRing(t,
		config.Key{ID: "a", Hash: hashes("1", "2", "leaked")}, config.Key{ID: "b", Hash: hashes("3")}, config.Key{ID: "c", Hash: hashes("4")},
		config.Key{ID: "d", Hash: hashes("5")}, config.Key{ID: "e", Hash: hashes("6")},
	)
	found := func(plain string) *Key {
		k, err := before.FindKey(Credential{key: []byte(plain)}, now)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	r := mustRing(t,
		config.Key{ID: "a", Hash: config.KeyHashes{{Hash: HashKey("1"), Expires: now}, {Hash: HashKey("2"), Expires: now.Add(time.Hour)}}},
		config.Key{ID: "b", Hash: hashes("3"), Expires: now},
		config.Key{ID: "c", Hash: hashes("4"), Active: &off},
		config.Key{ID: "renamed", Hash: hashes("6")},
	)
	for plain, want := range map[string]bool{"1": true, "2": true, "leaked": false, "3": false, "4": false, "5": false, "6": false} {
		if r.MayContinue(found(plain), now) != want {
			t.Errorf("Holds of what was found by %s = %v", plain, !want)
		}
	}
	if r.MayContinue(found("2"), now.Add(time.Hour)) {
		t.Error("a key is held after its last hash has expired")
	}
}

func TestNewRingRefuses(t *testing.T) {
	for want, keys := range map[string][]config.Key{
		"no id":                {{Hash: hashes("x")}},
		`key "a" has no hash`:  {{ID: "a"}},
		`key "a" is listed`:    {{ID: "a", Hash: hashes("x")}, {ID: "a", Hash: hashes("y")}},
		`keys "a" and "b"`:     {{ID: "a", Hash: hashes("x")}, {ID: "b", Hash: hashes("x")}},
		"64 hexadecimal":       {{ID: "a", Hash: config.KeyHashes{{Hash: "sha256:00"}}}},
		"no hexadecimal digit": {{ID: "a", Hash: config.KeyHashes{{Hash: "sha256:" + strings.Repeat("zz", 32)}}}},
		"is not \"sha256:\"":   {{ID: "a", Hash: config.KeyHashes{{Hash: "sha1:" + strings.Repeat("00", 32)}}}},
	} {
		if _, err := NewKeyRing(keys, new(IssuerOptions)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestScopes(t *testing.T) {
	r := mustRing(t,
		config.Key{ID: "default", Hash: hashes("default")},
		config.Key{ID: "star", Hash: hashes("star"), Models: []string{"*"}},
		config.Key{
			ID: "some", Hash: hashes("some"), Models: []string{"exact", "claude-*"},
			Operations: []string{config.OpChat, config.OpSpeech},
		},
		config.Key{ID: "none", Hash: hashes("none"), Models: []string{}, Operations: []string{}},
	)
	find := func(plain string) *Key {
		k, err := r.FindKey(Credential{key: []byte(plain)}, now)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for _, c := range []struct {
		key   *Key
		model string
		want  bool
	}{
		{find("default"), "anything", true},
		{find("star"), "anything", true},
		{find("some"), "exact", true},
		{find("some"), "exactly", false},
		{find("some"), "Exact", false},
		{find("some"), "claude-", true},
		{find("some"), "claude-4", true},
		{find("some"), "claude", false},
		{find("some"), "my-claude-4", false},
		{find("some"), "claude-*", true},
		{find("some"), "", false},
		{find("none"), "exact", false},
		{nil, "anything", false},
	} {
		if got := c.key.AllowsModel(c.model); got != c.want {
			t.Errorf("%+v: AllowsModel(%q) = %v, want %v", c.key, c.model, got, c.want)
		}
	}
	for _, c := range []struct {
		key  *Key
		op   string
		want bool
	}{
		{find("default"), config.OpImages, true},
		{find("some"), config.OpSpeech, true},
		{find("some"), config.OpMessages, false},
		{find("none"), config.OpChat, false},
		{nil, config.OpChat, false},
	} {
		if got := c.key.AllowsOperation(c.op); got != c.want {
			t.Errorf("%+v allows operation %q: %v", c.key, c.op, got)
		}
	}
}

func ringOf(b testing.TB, n int) (*KeyRing, Credential, Credential) {
	keys := make([]config.Key, n)
	for i := range keys {
		keys[i] = config.Key{ID: fmt.Sprint("key-", i), Hash: hashes(fmt.Sprint("secret-", i))}
	}
	own, hash, err := NewKey()
	if err != nil {
		b.Fatal(err)
	}
	keys[n/2].Hash = config.KeyHashes{{Hash: hash}}
	return mustRing(b, keys...), Credential{key: []byte(own)}, Credential{key: []byte("secret-none")}
}

func TestFindDoesNotAllocate(t *testing.T) {
	if raced.Enabled {
		t.Skip("the race detector allocates")
	}
	r, known, unknown := ringOf(t, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = r.FindKey(known, now)
		_, _ = r.FindKey(unknown, now)
	}); n != 0 {
		t.Errorf("Find allocates %v times", n)
	}
}

func BenchmarkFind(b *testing.B) {
	r, known, unknown := ringOf(b, 1000)
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = r.FindKey(known, now)
		}
	})
	b.Run("unknown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = r.FindKey(unknown, now)
		}
	})
}

func BenchmarkExtract(b *testing.B) {
	for name, r := range map[string]*CredentialInput{
		"bearer": {Authorization: headers("Bearer " + strings.Repeat("k", keyLen))},
		"query":  {Authorization: headers("Bearer k"), Query: []byte("api-version=2024-06-01&limit=20")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = ExtractCredential(r)
			}
		})
	}
}

func BenchmarkNewRing(b *testing.B) {
	keys := make([]config.Key, 1000)
	for i := range keys {
		keys[i] = config.Key{ID: fmt.Sprint("key-", i), Hash: hashes(fmt.Sprint("secret-", i)), Models: []string{"*"}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewKeyRing(keys, new(IssuerOptions)); err != nil {
			b.Fatal(err)
		}
	}
}
