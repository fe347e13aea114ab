package config

import (
	"strings"

	"penstock/config/strictyaml"
)

// BindNode accepts one hash as a string, or a list of strings and {hash, expires} mappings.
func (h *KeyHashes) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	hashes := make([]KeyHash, 1)
	if n.IsList() {
		b.BindList(n, &hashes)
	} else {
		hashes[0].BindNode(b, n)
	}
	*h = hashes
}

// BindNode accepts a string, or a mapping with the members of KeyHash. A string that does not look
// like a hash may be the key itself, so excerpts do not show it.
func (h *KeyHash) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if n.IsMapping() {
		b.BindFields(n, h)
	} else {
		b.BindScalar(n, &h.Hash)
	}
	if !strings.HasPrefix(h.Hash, HashPrefix) && !n.IsReference() {
		b.HideFromExcerpts(n)
	}
	h.Hash = strings.ToLower(h.Hash)
}

// BindNode accepts one number, or a mapping with either shared and fleet or the separate pools.
func (c *Concurrency) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	var read Concurrency
	switch {
	case n.IsMapping():
		b.BindFields(n, &read)
		pools := read.Text > 0 || read.Vision > 0 || read.Audio > 0
		switch {
		case b.ContainsBroken(n):
		case read.Shared < 0 || !pools && read.Shared == 0:
			b.Fail(n, "no pool has a slot: set text, vision or audio to a number above 0")
		case pools && read.Shared > 0:
			b.Fail(n, "shared is one number for all pools: set either shared, or text, vision and audio")
		}
	case n.IsList():
		b.Fail(n, "want one number, or text, vision and audio with a number each, not a list")
		return
	default:
		b.BindScalar(n, &read.Shared)
		if read.Shared <= 0 && !b.IsBroken(n) {
			b.Fail(n, "must be at least 1; leave it out to use what the engine reports")
			return
		}
	}
	*c = read
}

// Secret is a value that is never printed. In the file it is a literal, "${VAR}" or "file:PATH".
type Secret string

// Value returns the secret. Only code that sends the secret should call it.
func (s Secret) Value() string { return string(s) }

// String returns "redacted", or "" if the secret is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "redacted"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// BindNode reads the secret from its variable or file.
func (s *Secret) BindNode(b *strictyaml.Binder, n strictyaml.Node) {
	if value, ok := b.ReadSecret(n); ok {
		*s = Secret(value)
	}
}
