// Package tty provides a pseudo-terminal for tests, with a screen that interprets the few escape
// sequences of full-screen programs. Other sequences fail the test.
package tty
