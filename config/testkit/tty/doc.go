// Package tty is a terminal for tests: a pseudo-terminal of the system, and behind it a screen that
// does what the few escape sequences of a full-screen program mean. It knows no others: one that
// is not in its list fails the test.
package tty
