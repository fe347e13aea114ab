//go:build !race

package raced

// On reports whether this build has the race detector.
const On = false
