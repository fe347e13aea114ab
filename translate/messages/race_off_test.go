//go:build !race

package messages

// raceEnabled: the race detector allocates, so allocations are not counted under it.
const raceEnabled = false
