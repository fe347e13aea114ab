//go:build !race

package raced

// On reports whether this build is for the race detector.
const On = false
