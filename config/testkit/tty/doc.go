// Package tty provides a pseudo-terminal for tests. Its screen interprets the few escape sequences
// that full-screen programs need. Any other sequence fails the test.
package tty
