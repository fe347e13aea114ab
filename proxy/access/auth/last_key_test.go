package auth

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/config/testkit/raced"
)

func (r *KeyRing) findWithHeader(last *LastKeyCache, name, value string, at time.Time) (*Key, error) {
	q := &CredentialInput{Last: last}
	if name == "x-api-key" {
		q.APIKey = headers(value)
	} else {
		q.Authorization = headers(value)
	}
	c, _, err := ExtractCredential(q)
	if err != nil {
		return nil, err
	}
	return r.FindKey(c, at)
}

// TestLastKeyIsHashedOnce replaces the cached hash with the hash of a different key. The next
// lookup must find that key, which proves that the first key was not hashed again.
func TestLastKeyIsHashedOnce(t *testing.T) {
	r := mustRing(t, config.Key{ID: "a", Hash: hashes("first-key")}, config.Key{ID: "b", Hash: hashes("other-key")})
	var last, other LastKeyCache
	find := func(l *LastKeyCache, name, value string) string {
		k, err := r.findWithHeader(l, name, value, now)
		if err != nil {
			return err.Error()
		}
		return k.ID
	}
	find(&last, "Authorization", "Bearer first-key")
	find(&other, "Authorization", "Bearer other-key")
	last.sum = other.sum
	if id := find(&last, "Authorization", "Bearer first-key"); id != "b" {
		t.Errorf("the key was hashed again: found %s", id)
	}
	if id := find(&last, "x-api-key", "Bearer first-key"); id == "b" {
		t.Error("the value of another header was taken for the last one")
	}
	if id := find(&last, "x-api-key", "first-key"); id != "a" {
		t.Errorf("in the other header: found %s", id)
	}
	last.sum = other.sum
	if id := find(&last, "x-api-key", "first-key"); id != "b" {
		t.Errorf("the key in x-api-key was hashed again: found %s", id)
	}
	q := &CredentialInput{APIKey: headers("first-key"), Last: &last}
	if n := testing.AllocsPerRun(100, func() {
		c, _, _ := ExtractCredential(q)
		_, _ = r.FindKey(c, now)
	}); n != 0 && !raced.Enabled {
		t.Errorf("%v allocations to find the last key", n)
	}
}

// TestLastKeyCachesOnlyFoundKeys checks what LastKeyCache does not cache: keys that no ring found,
// long keys, keys in both headers, and parts of an earlier key.
func TestLastKeyCachesOnlyFoundKeys(t *testing.T) {
	long := strings.Repeat("k", maxCachedHeader+1)
	r := mustRing(t, config.Key{ID: "long", Hash: hashes(long)}, config.Key{ID: "a", Hash: hashes("a-longer-key")}, config.Key{ID: "b", Hash: hashes("key")})
	var last LastKeyCache
	for _, plain := range []string{long, "unknown", ""} {
		_, _ = r.findWithHeader(&last, "x-api-key", plain, now)
	}
	c, _, err := ExtractCredential(&CredentialInput{Authorization: headers("Bearer key"), APIKey: headers("key"), Last: &last})
	if _, lost := r.FindKey(c, now); err != nil || lost != nil {
		t.Error(err, lost)
	}
	if !reflect.DeepEqual(last, LastKeyCache{}) {
		t.Error("a key was remembered that is long, unknown or in both headers")
	}
	for _, plain := range []string{"a-longer-key", "key"} {
		if _, err := r.findWithHeader(&last, "x-api-key", plain, now); err != nil {
			t.Fatal(err)
		}
	}
	if rest := last.value[len(last.value):cap(last.value)]; len(rest) == 0 || strings.Trim(string(rest), "\x00") != "" {
		t.Errorf("of the key before there are still %d bytes", len(rest))
	}
	if text := fmt.Sprintf("%v %+v %#v %s", &last, &last, &last, &last); strings.Contains(text, "key") {
		t.Errorf("formatted it is %s", text)
	}
}

// TestLastKeyProperty checks that caching the last key never changes the result of a lookup. It
// covers reloads, revoked, rotated, expired and inactive keys, different keys on one connection,
// and both headers.
func TestLastKeyProperty(t *testing.T) {
	own, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	plain := []string{own, own[:len(own)-1] + "~", "key-one", "key-two", "key", "key-ones", strings.Repeat("k", maxCachedHeader+1)}
	ring := func(t *rapid.T) *KeyRing {
		var keys []config.Key
		for i, p := range plain {
			if !rapid.Bool().Draw(t, "configured") {
				continue
			}
			active := rapid.IntRange(0, 3).Draw(t, "active") > 0
			k := config.Key{ID: fmt.Sprintf("key %d", i), Hash: hashes(p), Active: &active}
			if rapid.Bool().Draw(t, "ends") {
				k.Hash[0].Expires = now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "after")) * time.Second)
			}
			if rapid.Bool().Draw(t, "rotated") {
				k.Hash = append(k.Hash, config.KeyHash{Hash: HashKey(p + "-new")})
			}
			keys = append(keys, k)
		}
		r, err := NewKeyRing(keys, &IssuerOptions{Unread: rapid.Bool().Draw(t, "unread")})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		r, at := ring(t), now
		var last LastKeyCache
		show := func(t *rapid.T) {
			shown := rapid.SampledFrom(plain).Draw(t, "key")
			if rapid.IntRange(0, 4).Draw(t, "new") == 0 {
				shown += "-new"
			}
			name := rapid.SampledFrom([]string{"Authorization", "x-api-key"}).Draw(t, "header")
			if name == "Authorization" {
				shown = rapid.SampledFrom([]string{"Bearer ", "bearer ", "Bearer  "}).Draw(t, "scheme") + shown
			}
			k, err := r.findWithHeader(&last, name, shown, at)
			wantKey, wantErr := r.findWithHeader(nil, name, shown, at)
			if k != wantKey || err != wantErr {
				t.Fatalf("found %v, %v; a connection without memory finds %v, %v", k, err, wantKey, wantErr)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"request": show,
			"again":   show,
			"reload":  func(t *rapid.T) { r = ring(t) },
			"time":    func(t *rapid.T) { at = at.Add(time.Second) },
		})
	})
}

func TestSame(t *testing.T) {
	text := []byte("0123456789abcdef0123456789")
	for n := range text {
		if equalConstantTime(text[:n], text[:n+1]) {
			t.Errorf("%d and %d bytes are the same", n, n+1)
		}
		if !equalConstantTime(text[:n], slices.Clone(text[:n])) {
			t.Errorf("%d bytes differ from themselves", n)
		}
		for i := range n {
			other := slices.Clone(text[:n])
			if other[i] ^= 1; equalConstantTime(text[:n], other) {
				t.Errorf("%d bytes: a difference at %d is missed", n, i)
			}
		}
	}
}
