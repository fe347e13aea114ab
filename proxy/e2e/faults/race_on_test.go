//go:build race

package faults

const raceOn = true
