package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/proxy/access/auth"
)

// TestListenAddresses checks the address formats that new users are likely to type.
func TestListenAddresses(t *testing.T) {
	for _, row := range []struct {
		at            ListenOptions
		public, admin string
		wrong         string
	}{
		{ListenOptions{}, "127.0.0.1:4000", "127.0.0.1:9090", ""},
		{ListenOptions{Listen: "8000"}, "127.0.0.1:8000", "127.0.0.1:9090", ""},
		{ListenOptions{Listen: ":8000", AdminListen: "8001"}, ":8000", "127.0.0.1:8001", ""},
		{ListenOptions{Listen: "[::1]:8000"}, "[::1]:8000", "127.0.0.1:9090", ""},
		{ListenOptions{Listen: "0.0.0.0:9090"}, "0.0.0.0:9090", "127.0.0.1:9091", ""},
		{ListenOptions{AdminListen: ":9000", AdminToken: "0123456789abcdef"}, "127.0.0.1:4000", ":9000", ""},
		{ListenOptions{Listen: "localhost"}, "", "", `--listen: "localhost" is no address: write PORT`},
		{ListenOptions{Listen: "::1:8000"}, "", "", "is no address"},
		{ListenOptions{Listen: "http://127.0.0.1:8000"}, "", "", "is no address"},
		{ListenOptions{Listen: ":70000"}, "", "", `--listen: ":70000" is no address`},
		{ListenOptions{AdminListen: "http://127.0.0.1:1"}, "", "", "--admin-listen: "},
		{ListenOptions{AdminListen: ":9000"}, "", "", "set PENSTOCK_ADMIN_TOKEN"},
		{ListenOptions{AdminListen: ":9000", AdminToken: "short"}, "", "", "16 characters or more"},
		{ListenOptions{Listen: "8000", AdminListen: "8000"}, "", "", "give the admin listener another port"},
	} {
		public, admin, err := row.at.listenAddresses()
		if public != row.public || admin != row.admin || (err == nil) != (row.wrong == "") {
			t.Errorf("addresses of %+v = %q and %q, %v; want %q and %q", row.at, public, admin, err, row.public, row.admin)
		}
		if err != nil && !strings.Contains(err.Error(), row.wrong) {
			t.Errorf("%+v: %v, want %q in it", row.at, err, row.wrong)
		}
	}
}

// TestKeyFile checks that a missing key file is created and is readable only by its owner. The next
// start must use the same key without printing it.
func TestKeyFile(t *testing.T) {
	at := ListenOptions{KeyFile: filepath.Join(t.TempDir(), "it's the key")}
	first, err := at.loadOrCreateKey()
	if err != nil || !first.wasCreated || auth.CheckKey(first.plain) != nil || !strings.Contains(first.description(), first.plain) {
		t.Fatalf("the first key: %v, want a valid one that is shown: %s", err, first.description())
	}
	if info, err := os.Stat(at.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v; want mode 0600", info, err)
	}
	again, err := at.loadOrCreateKey()
	if err != nil || again.hash != first.hash || again.wasCreated || strings.Contains(again.description()+again.authHeader(), first.plain) {
		t.Errorf("the second start: %v, want the same key, not shown: %s", err, again.description())
	}
	if want := `"Authorization: Bearer $(cat '` + strings.Replace(at.KeyFile, "'", `'\''`, 1) + `')"`; again.authHeader() != want {
		t.Errorf("%s, want %s", again.authHeader(), want)
	}
	for text, wrong := range map[string]string{
		"": "is empty", "abc\n": "can be guessed", first.plain[:20] + "\n": "a character is missing", "two words of a key that is long": "visible ASCII",
	} {
		if err := os.WriteFile(at.KeyFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := at.loadOrCreateKey(); err == nil || !strings.Contains(err.Error(), wrong) || text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("a key file with %q: %v, want %q in it and not the key", text, err, wrong)
		}
	}
}
