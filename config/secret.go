package config

import "penstock/config/strictyaml"

// Secret is a value that never prints. It is written as a literal, as "${VAR}" or as "file:PATH".
type Secret string

// Value returns the secret itself, for the one place that sends it.
func (s Secret) Value() string { return string(s) }

// String hides the value from every formatter.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "redacted"
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// BindNode reads the variable or the file that the secret is in.
func (s *Secret) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if value, ok := b.Secret(n); ok {
		*s = Secret(value)
	}
}
