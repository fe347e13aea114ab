// Package benchtest contains helpers for the tests of the load tester: engines, the built program,
// and synthetic results.
package benchtest
