package config

import (
	"strings"
	"testing"
)

// TestCheckOpenPorts checks that CheckAlreadyOpenPorts checks the addresses of the open ports rather than
// the addresses in the file.
func TestCheckOpenPorts(t *testing.T) {
	const open = "auth: none\n" // with loopback addresses, which Validate accepts
	withToken := strings.Replace(minimalConfig, "keys:", "admin: { listen: 127.0.0.1:9090, token: ffffffffffffffff }\nkeys:", 1)
	for _, row := range []struct{ name, file, public, admin, want string }{
		{"as the file says", open + minimalConfig, "127.0.0.1:4000", "[::1]:9090", ""},
		{"no admin listener", open + minimalConfig, "127.0.0.1:4000", "", ""},
		{"keys and a token", withToken, "0.0.0.0:4000", "[::]:9090", ""},
		{"keys, admin on loopback", minimalConfig, "[::]:4000", "127.0.0.1:9090", ""},
		{"public", open + minimalConfig, "[::]:4000", "127.0.0.1:9090", "auth none is allowed on loopback only, and the port of listen is open at [::]:4000"},
		{"one address", open + minimalConfig, "10.0.0.7:4000", "", "auth none is allowed on loopback only, and the port of listen is open at 10.0.0.7:4000"},
		{"admin without a token", minimalConfig, "127.0.0.1:4000", "0.0.0.0:9090", "admin.token it is needed: the admin listener is open at 0.0.0.0:9090"},
	} {
		f, ps := ParseValid("c.yaml", []byte(row.file), bundledProfiles)
		if f == nil {
			t.Fatalf("%s: the file was refused: %s", row.name, ps)
		}
		got := f.CheckAlreadyOpenPorts(row.public, row.admin)
		switch {
		case row.want == "" && len(got) > 0:
			t.Errorf("%s: CheckAlreadyOpenPorts = %q, want no problem", row.name, got)
		case row.want != "" && (len(got) != 1 || got.Err() == nil || !strings.HasPrefix(got[0].Path+" "+got[0].Message, row.want)):
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		case row.want != "" && !strings.Contains(got[0].Message, "restarts"):
			t.Errorf("%s: no remedy: %s", row.name, got)
		}
	}
}
