package admin

import (
	"testing"

	"penstock/config"
)

// TestNewKeyView checks that the view of a key without a secret says how the key is
// identified, and that it says whose calls share the limits.
func TestNewKeyView(t *testing.T) {
	named := NewKeyView(&config.Key{ID: "a", Certificate: config.CertificateIdentity{SAN: "agent.test"}, Limits: config.KeyLimits{Per: config.LimitPerKey}}, sourceConfiguration)
	if named.Certificate != "agent.test" || named.Limits["per"] != config.LimitPerKey {
		t.Errorf("certificate %q, limits %v", named.Certificate, named.Limits)
	}
	pinned := NewKeyView(&config.Key{ID: "a", Certificate: config.CertificateIdentity{SPKI: "sha256:00"}, Limits: config.KeyLimits{Per: config.LimitPerCaller}}, sourceConfiguration)
	if pinned.Certificate != "sha256:00" || pinned.Limits["per"] != nil {
		t.Errorf("certificate %q, limits %v", pinned.Certificate, pinned.Limits)
	}
}
