// Package quietlog silences the standard library's log while packages are initialized.
// VictoriaMetrics/metrics logs a line during its initialisation on every host without pressure
// stall information. The output of every command, even `key new`, would start with that line.
//
// # Design
//
// Go initializes packages in the order of their import paths, as far as their imports allow. This
// package imports only log, io and os. VictoriaMetrics/metrics must wait for net/http, whose last
// imports come after "penstock/" in that order. So package quietlog is initialized first in every
// program that links it. A test checks that on the built program.
package quietlog
