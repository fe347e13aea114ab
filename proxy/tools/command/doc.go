// Package command implements all commands except `bench` and `sim`. It contains their flags and
// help texts, and calls the packages that do the work. A command reads the environment only through
// its flags. The exception is completion-values, which reads the environment variables of the flags
// on the command line that it completes. Results are written to standard output, and errors to
// standard error.
package command
