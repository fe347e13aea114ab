// Package quietlog silences the standard library's log while packages are initialised.
// VictoriaMetrics/metrics logs a line during its initialisation on every host without pressure
// stall information. Each command of the program, even `key new`, would begin with that line.
//
// # Design
//
// Go initialises packages in the order of their import paths, as far as their imports allow. This
// package imports only log, io and os. VictoriaMetrics/metrics must wait for net/http, whose last
// imports come after "penstock/" in that order. Package quietlog is therefore initialised first
// wherever it is linked. A test checks that on the built program.
package quietlog
