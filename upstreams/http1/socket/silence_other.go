//go:build !linux

package socket

// Silence sees nothing here: the system's own patience with a silent host counts.
func Silence(uintptr) (milliseconds int, waiting bool) { return 0, false }

// Unacked cannot be told here.
func Unacked(uintptr) int { return 0 }

// Question asks nothing here, since Unanswered would not see that there is no answer.
func Question(uintptr) error { return nil }

// Unanswered sees nothing here, as Silence.
func Unanswered(uintptr) (milliseconds int, owed bool) { return 0, false }
