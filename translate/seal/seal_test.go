package seal_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/seal"
)

const (
	secretA = "a-secret-of-some-forty-characters-number-a"
	secretB = "a-secret-of-some-forty-characters-number-b"
)

type counts [seal.ResultCount]int

func (c *counts) count(r seal.Result) { c[r]++ }

// TestPurposes checks that a blob can be opened only for its purpose, and that UsesNewestSecret
// recognizes blobs sealed with the newest secret.
func TestPurposes(t *testing.T) {
	secret, other := "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	count := func(seal.Result) {}
	box := func(k *seal.Keys) seal.Box { return k.NewBox("owner", count).WithModel("model") }
	blob, ok := box(seal.NewKeysFor("one", secret)).Seal(nil, []byte("text"))
	if !ok {
		t.Fatal("not sealed")
	}
	if _, ok := box(seal.NewKeysFor("two", secret)).Open(nil, blob); ok {
		t.Error("it opens for another purpose")
	}
	if _, ok := box(seal.NewKeys(secret)).Open(nil, blob); ok {
		t.Error("it opens as reasoning")
	}
	rotated := box(seal.NewKeysFor("one", other, secret))
	if text, ok := rotated.Open(nil, blob); !ok || string(text) != "text" {
		t.Error("it does not open by the second secret")
	}
	if rotated.UsesNewestSecret(blob) || !box(seal.NewKeysFor("one", secret, other)).UsesNewestSecret(blob) || rotated.UsesNewestSecret([]byte("pst1")) || rotated.UsesNewestSecret(nil) {
		t.Error("the newest secret is not told from the others")
	}
}

// TestRoundTrip checks that a sealed text can be opened with any of the secrets, but only for its
// owner and model.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n counts
		text := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "text")
		owner, model := rapid.String().Draw(t, "owner"), rapid.String().Draw(t, "model")
		box := seal.NewKeys(secretA).NewBox(owner, n.count).WithModel(model)
		blob, ok := box.Seal([]byte("x"), text)
		if !ok || blob[0] != 'x' {
			t.Fatalf("not sealed: %q", blob)
		}
		blob = blob[1:]
		if strings.ContainsAny(string(blob), "\"\\ \n") || len(text) > 8 && bytes.Contains(blob, text) {
			t.Fatalf("a blob that JSON cannot hold, or that shows its text: %q", blob)
		}
		if again, _ := box.Seal(nil, text); bytes.Equal(again, blob) {
			t.Fatal("two blobs are the same")
		}
		rotated := seal.NewKeys(secretB, secretA).NewBox(owner, n.count).WithModel(model)
		if got, ok := rotated.Open([]byte("y"), blob); !ok || string(got) != "y"+string(text) {
			t.Fatalf("Open = %q, %t, want the text", got, ok)
		}
		for what, other := range map[string]seal.Box{
			"owner":  seal.NewKeys(secretA).NewBox(owner+"x", n.count).WithModel(model),
			"model":  box.WithModel(model + "x"),
			"border": seal.NewKeys(secretA).NewBox(owner+model, n.count).WithModel(""),
			"secret": seal.NewKeys(secretB).NewBox(owner, n.count).WithModel(model),
		} {
			if what == "border" && model == "" {
				continue
			}
			if got, ok := other.Open([]byte("y"), blob); ok || string(got) != "y" {
				t.Fatalf("another %s opens it: %q", what, got)
			}
		}
		if n[seal.ResultSealed] != 2 || n[seal.ResultOpened] != 1 || n[seal.ResultUnknownSecret] != 1 {
			t.Fatalf("counted %v, want 2 sealed, 1 opened and 1 stale", n)
		}
	})
}

// TestForged checks that a blob with a changed or missing byte cannot be opened.
func TestForged(t *testing.T) {
	var n counts
	box := seal.NewKeys(secretA, secretB).NewBox("team-a", n.count).WithModel("m")
	blob, _ := box.Seal(nil, []byte("the plan"))
	raw, err := base64.StdEncoding.DecodeString(string(blob))
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		changed := bytes.Clone(raw)
		changed[i] ^= 1
		for _, b := range [][]byte{changed, raw[:i]} {
			if got, ok := box.Open(nil, base64.StdEncoding.AppendEncode(nil, b)); ok || len(got) > 0 {
				t.Fatalf("byte %d of %d: opened %q", i, len(raw), got)
			}
		}
	}
	if n[seal.ResultOpened] != 0 || n[seal.ResultForged] == 0 || n[seal.ResultUnknownSecret] == 0 || n[seal.ResultForeign] == 0 {
		t.Errorf("counted %v, want forged, stale and foreign blobs and none opened", n)
	}
}

// TestBounds checks that 256 KiB can be sealed and opened, but not one more byte. It also checks
// that another provider's blob counts as foreign.
func TestBounds(t *testing.T) {
	var n counts
	box := seal.NewEphemeralKeys().NewBox("", n.count).WithModel("m")
	longest := bytes.Repeat([]byte("r"), seal.MaxText)
	blob, ok := box.Seal(nil, longest)
	if got, opened := box.Open(nil, blob); !ok || !opened || !bytes.Equal(got, longest) {
		t.Errorf("the longest text: sealed %t, opened %t", ok, opened)
	}
	if blob, ok := box.Seal(nil, append(longest, 'r')); ok || len(blob) > 0 {
		t.Error("a longer text was sealed")
	}
	for _, foreign := range []string{"", "pst", "cGVuc3RvY2s=", "EqQBCgIYAhIM1gbcDa9GJwZA2b3h", "pst1" + strings.Repeat("A", 400_000)} {
		if _, ok := box.Open(nil, []byte(foreign)); ok {
			t.Errorf("Open accepted the foreign blob %.20s", foreign)
		}
	}
	for _, forged := range []string{"pst1", "pst1!!!!", "pst1AAAA"} {
		if _, ok := box.Open(nil, []byte(forged)); ok {
			t.Errorf("Open accepted the forged blob %s", forged)
		}
	}
	want := counts{seal.ResultSealed: 1, seal.ResultOpened: 1, seal.ResultTooLong: 1, seal.ResultForeign: 5, seal.ResultForged: 3}
	if n != want {
		t.Errorf("counted %v, want %v", n, want)
	}
}

// TestOpenGrows checks that Open grows the buffer like append. Copying the whole buffer for each
// blob would take quadratic time.
func TestOpenGrows(t *testing.T) {
	box := seal.NewEphemeralKeys().NewBox("", func(seal.Result) {}).WithModel("m")
	blob, _ := box.Seal(nil, bytes.Repeat([]byte("r"), 1000))
	var out []byte
	grown := 0
	for range 1000 {
		before := cap(out)
		if out, _ = box.Open(out, blob); cap(out) != before {
			grown++
		}
	}
	if len(out) != 1000*1000 || grown > 50 {
		t.Errorf("%d bytes, copied %d times", len(out), grown)
	}
}

// TestZeroBox checks that without keys nothing is sealed, opened or counted.
func TestZeroBox(t *testing.T) {
	var box seal.Box
	if got, ok := box.WithModel("m").Seal(nil, []byte("text")); ok || got != nil {
		t.Errorf("Seal = %q, want nothing", got)
	}
	if got, ok := box.Open(nil, []byte("pst1")); ok || got != nil {
		t.Errorf("Open = %q, want nothing", got)
	}
}

func TestPrivateKeys(t *testing.T) {
	if a := seal.NewEphemeralKeys(); !a.IsEphemeral() || seal.NewKeys(secretA).IsEphemeral() {
		t.Error("private keys are not told from those of a file")
	}
	var n counts
	blob, _ := seal.NewEphemeralKeys().NewBox("", n.count).Seal(nil, []byte("text"))
	if _, ok := seal.NewEphemeralKeys().NewBox("", n.count).Open(nil, blob); ok || n[seal.ResultUnknownSecret] != 1 {
		t.Errorf("another process opens it, or counts it otherwise: %v", n)
	}
}

// FuzzOpen checks that no blob from a client causes a panic, and that only blobs sealed by this
// test can be opened.
func FuzzOpen(f *testing.F) {
	var n counts
	box := seal.NewKeys(secretA).NewBox("team-a", n.count).WithModel("m")
	known := map[string]bool{}
	for _, text := range []string{"", "a", strings.Repeat("plan ", 100)} {
		blob, _ := box.Seal(nil, []byte(text))
		known[text] = true
		f.Add(blob)
		f.Add(blob[:len(blob)/2])
	}
	f.Add([]byte("pst1"))
	f.Fuzz(func(t *testing.T, blob []byte) {
		got, ok := box.Open([]byte("before"), blob)
		switch {
		case !bytes.HasPrefix(got, []byte("before")):
			t.Errorf("what was there is lost: %q", got)
		case ok && !known[string(got[6:])]:
			t.Errorf("opened a text that was never sealed: %q", got)
		case !ok && len(got) != 6:
			t.Errorf("something of what did not open is there: %q", got)
		}
	})
}
