// Package command implements all commands except `bench` and `sim`. It contains their flags and
// help texts, and calls the packages that do the work. A command reads the environment only through
// its flags. completion-values reads it for the flags of the command line that it completes.
// Results are written to standard output, and errors to standard error.
package command
