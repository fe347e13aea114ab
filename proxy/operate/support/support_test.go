package support

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestState checks that the identities of callers with tokens are removed, and that events become
// lines.
func TestState(t *testing.T) {
	state, events, err := anonymizeStatus([]byte(`{"issuers":[{"name":"login"}],"calls":[{"id":"0196","key":"login/alice"},{"key":"team-a"},{"key":"other/team"}],
		"keys":[{"id":"login/alice"}],"upstreams":[{"name":"gpu-a","mode_who":"bob"}],"big":9007199254740993,
		"events":[{"at":"2026-11-23T10:00:00Z","kind":"down","level":"out","who":"gpu-a","text":"down\u001b[2J"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"alice", "bob"} {
		if bytes.Contains(state, []byte(name)) {
			t.Errorf("%s is shown:\n%s", name, state)
		}
	}
	for _, part := range []string{`"login/(removed)"`, `"team-a"`, `"other/team"`, "9007199254740993", `"gpu-a"`} {
		if !bytes.Contains(state, []byte(part)) {
			t.Errorf("%s is missing:\n%s", part, state)
		}
	}
	if got := string(events); got != "2026-11-23T10:00:00Z  down  out  gpu-a  down?[2J\n" {
		t.Errorf("events = %q, want the line without its escape character", got)
	}
}

// TestScrub checks that all occurrences of known secrets are removed, longest secrets first, and
// that truncated long secrets are also removed.
func TestScrub(t *testing.T) {
	long := "abcdefghijklmnopqrstuvwxyz0123456789"
	s := newScrubber([]string{"secret", "secret-and-more", long, "abc", ""})
	for text, want := range map[string]string{
		"a secret, secret-and-more":          "a (removed), (removed)",
		"is " + long[:20] + `..." no`:        `is (removed)" no`,
		"abc stays, for it is in many words": "abc stays, for it is in many words",
	} {
		if got := s.scrubText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if s.scrubBytes(nil) != nil {
		t.Error("nothing becomes something")
	}
}

// TestVariables checks that the variables that an edge reads are listed without their values.
func TestVariables(t *testing.T) {
	got := variableNames([]string{"PENSTOCK_ADMIN_TOKEN=secret", "HOME=/root", "GOMEMLIMIT=1GiB", "OTEL_EXPORTER_OTLP_HEADERS=authorization=secret"})
	if want := []string{"GOMEMLIMIT", "OTEL_EXPORTER_OTLP_HEADERS", "PENSTOCK_ADMIN_TOKEN"}; !slices.Equal(got, want) {
		t.Errorf("environment = %v, want %v", got, want)
	}
	if facts := string(systemFacts(nil)); !strings.Contains(facts, "processors") {
		t.Errorf("facts = %s, want processors in them", facts)
	}
}

// TestDialAddress checks the addresses at which this machine can reach a listener.
func TestDialAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9090": "127.0.0.1:9090", ":9091": "127.0.0.1:9091", "0.0.0.0:1": "127.0.0.1:1", "[::]:2": "127.0.0.1:2", "": defaultAdmin,
		"[::1]:3": "[::1]:3",
	} {
		if got := dialAddress(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
