package config

import (
	"strings"
	"testing"
)

// TestChangedDefaults: a file of the first version is told what is not as it was, and one that says a value itself is not.
func TestChangedDefaults(t *testing.T) {
	const rest = "keys: [{ id: a, hash: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\" }]\n"
	const byWork = "timeouts.first_event: 2m0s -> 15m0s while its engine is seen to work; " +
		"timeouts.idle: 1m0s -> 15m0s while its engine is seen to work; "
	for _, row := range []struct{ file, want string }{
		{rest, "limits.header: 8KiB -> 16KiB; " + byWork + "timeouts.client_idle: 1m0s -> 1m15s"},
		{"limits: { connections: 10 }\n" + rest, "limits.header: 8KiB -> 16KiB; " + byWork + "timeouts.client_idle: 1m0s -> 1m15s"},
		{"limits: { header: 16KiB }\n" + rest, byWork + "timeouts.client_idle: 1m0s -> 1m15s"},
		{"limits: { header: 8KiB }\ntimeouts:\n  client_idle: 620s\n  first_event: 120s\n  idle: 60s\n" + rest, ""},
		{"limits:\n" + rest, "limits.header: 8KiB -> 16KiB; " + byWork + "timeouts.client_idle: 1m0s -> 1m15s"},
	} {
		f := mustParse(t, row.file)
		if got := strings.Join(f.ChangedDefaults(), "; "); got != row.want {
			t.Errorf("%q: %q, want %q", row.file, got, row.want)
		}
	}
	for _, c := range changedDefaults {
		if c.was == c.is(Defaults()) {
			t.Errorf("%s is what it was", c.path)
		}
	}
}
