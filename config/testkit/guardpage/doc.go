// Package guardpage is memory for tests of code that reads by pointers, as vector instructions do:
// one byte too far is in a page that nobody may read, and ends the test's process. Tests of any
// package can use it, because it imports nothing of ours.
package guardpage
