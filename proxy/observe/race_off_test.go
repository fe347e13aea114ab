//go:build !race

package observe

const raceOn = false
