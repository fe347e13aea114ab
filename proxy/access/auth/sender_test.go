package auth

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
)

// TestLastKeyIsHashedOnce replaces the remembered hash by that of another key. The next look-up
// finds the other key, so it has not hashed the first one again.
func TestLastKeyIsHashedOnce(t *testing.T) {
	r := mustRing(t, config.Key{ID: "a", Hash: hashes("first key")}, config.Key{ID: "b", Hash: hashes("other key")})
	var last, other LastKey
	find := func(l *LastKey, plain string) string {
		k, err := r.Find(Credential{[]byte(plain)}, l, now)
		if err != nil {
			return err.Error()
		}
		return k.ID
	}
	find(&last, "first key")
	find(&other, "other key")
	last.sum = other.sum
	if id := find(&last, "first key"); id != "b" {
		t.Errorf("the key was hashed again: found %s", id)
	}
	if id := find(&last, "first kez"); id == "b" {
		t.Error("another key was taken for the last one")
	}
	c := Credential{[]byte("other key")}
	if n := testing.AllocsPerRun(100, func() { _, _ = r.Find(c, &other, now) }); n != 0 {
		t.Errorf("%v allocations to find the last key", n)
	}
}

// TestLastKeyKeepsLittle checks what a connection does not remember: keys that no ring has found,
// long ones, and anything of the key before the last one.
func TestLastKeyKeepsLittle(t *testing.T) {
	long := strings.Repeat("k", longestKept+1)
	r := mustRing(t, config.Key{ID: "long", Hash: hashes(long)}, config.Key{ID: "a", Hash: hashes("a longer key")}, config.Key{ID: "b", Hash: hashes("key")})
	var last LastKey
	find := func(plain string) { _, _ = r.Find(Credential{[]byte(plain)}, &last, now) }
	find(long)
	find("unknown")
	find("")
	if !reflect.DeepEqual(last, LastKey{}) {
		t.Error("a key was remembered that is long or unknown")
	}
	find("a longer key")
	find("key")
	if rest := last.key[len(last.key):cap(last.key)]; len(rest) == 0 || strings.Trim(string(rest), "\x00") != "" {
		t.Errorf("of the key before there are still %d bytes", len(rest))
	}
	if text := fmt.Sprintf("%v %+v %#v %s", &last, &last, &last, &last); strings.Contains(text, "key") {
		t.Errorf("formatted it is %s", text)
	}
}

// TestLastKeyProperty checks that what a connection remembers never changes an answer: through
// reloads, revoked, rotated, expired and inactive keys, several keys on one connection, and keys in
// either header.
func TestLastKeyProperty(t *testing.T) {
	own, _, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	plain := []string{own, own[:len(own)-1] + "~", "key-one", "key-two", "key", "key-ones", strings.Repeat("k", longestKept+1)}
	ring := func(t *rapid.T) *Ring {
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
				k.Hash = append(k.Hash, config.KeyHash{Hash: Hash(p + "-new")})
			}
			keys = append(keys, k)
		}
		r, err := NewRing(keys, &Issuers{Unread: rapid.Bool().Draw(t, "unread")})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		r, at := ring(t), now
		var last LastKey
		show := func(t *rapid.T) {
			shown := rapid.SampledFrom(plain).Draw(t, "key")
			if rapid.IntRange(0, 4).Draw(t, "new") == 0 {
				shown += "-new"
			}
			q := &Request{Authorization: [][]byte{[]byte("Bearer " + shown)}}
			if rapid.Bool().Draw(t, "x-api-key") {
				q = &Request{APIKey: [][]byte{[]byte(shown)}}
			}
			c, _, err := Extract(q)
			if err != nil {
				t.Fatal(err)
			}
			k, err := r.Find(c, &last, at)
			wantKey, wantErr := r.Find(c, nil, at)
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
