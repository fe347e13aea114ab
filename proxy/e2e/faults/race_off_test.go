//go:build !race

package faults

// raceOn says that the program is built for the race detector, and everything is slow.
const raceOn = false
