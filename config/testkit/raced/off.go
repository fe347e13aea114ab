//go:build !race

package raced

// Enabled reports whether the race detector is enabled.
const Enabled = false
