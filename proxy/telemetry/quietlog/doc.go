// Package quietlog silences the standard library's log while packages are initialized.
// VictoriaMetrics/metrics logs a line during its initialization on every host without pressure
// stall information. Without this package, the output of every command, even `key new`, would start
// with this line.
//
// # Design
//
// Go initializes packages in the order of their import paths, as far as dependencies allow. Package
// quietlog imports only log, io and os. VictoriaMetrics/metrics must wait for net/http, whose last
// imports come after "penstock/" in that order. Package quietlog is therefore initialized before
// VictoriaMetrics/metrics in every program that links it.
package quietlog
