// Package tty provides a terminal for tests: a pseudo-terminal of the system, with a screen that
// interprets the few escape sequences that full-screen programs use. Any other sequence fails the
// test.
package tty
