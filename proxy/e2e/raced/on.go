//go:build race

package raced

// On says that this build is for the race detector.
const On = true
