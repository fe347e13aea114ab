package call

import (
	"testing"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/running/snapshot"
	"penstock/translate/chat"
)

// TestCallClassRank checks that a call has the class of its key, and that a flex request has the
// last class if the configuration has classes.
func TestCallClassRank(t *testing.T) {
	classes := &snapshot.Snapshot{
		Config: &config.File{Classes: []config.Class{{Name: "first"}, {Name: "second"}, {Name: "third"}}},
		Flex:   true, Floors: make([]config.Percent, 3),
	}
	none := &snapshot.Snapshot{Config: &config.File{}}
	var flex, usual chat.Request
	for body, r := range map[string]*chat.Request{
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"service_tier":"flex"}`: &flex,
		`{"model":"m","messages":[{"role":"user","content":"hi"}]}`:                       &usual,
	} {
		if err := r.Decode([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		of   *snapshot.Snapshot
		key  *auth.Key
		r    *chat.Request
		want int
	}{
		{"no key", classes, nil, &usual, 0},
		{"a key without a class", classes, &auth.Key{}, &usual, 0},
		{"a key's class", classes, &auth.Key{Class: "second"}, &usual, 1},
		{"a class that a reload removed", classes, &auth.Key{Class: "gone"}, &usual, 0},
		{"flex", classes, &auth.Key{Class: "second"}, &flex, 2},
		{"flex without a key", classes, nil, &flex, 2},
		{"flex without classes", none, &auth.Key{}, &flex, 0},
		{"not a chat request", classes, &auth.Key{Class: "third"}, nil, 2},
	} {
		if got := callClassRank(c.of, c.key, c.r); got != c.want {
			t.Errorf("%s: the rank is %d, want %d", c.name, got, c.want)
		}
	}
}
