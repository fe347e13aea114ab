// Package quietlog silences the standard library's log while packages are initialised.
// VictoriaMetrics/metrics logs a line in its initialisation on every host without pressure stall
// information, so each command of the program, even `key new`, began with it.
//
// # Design
//
// Go initialises packages in the order of their import paths as far as their imports allow. This
// package imports nothing but log, io and os, while that library waits for net/http, whose last
// imports come after "penstock/" in that order. So this package comes first wherever it is linked;
// a test of the built program checks that.
package quietlog
