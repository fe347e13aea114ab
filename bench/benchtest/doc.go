// Package benchtest is what the tests of the load tester have in common: engines, the built
// program, and results made up.
package benchtest
