// Package tty provides a pseudo-terminal for tests. The screen interprets the few escape sequences
// that full-screen programs need. Any other escape sequence fails the test.
package tty
