// Package command implements all commands of the program except `bench` and `sim`. It contains
// their flags and help, and calls the packages that do the work. A command reads the environment
// only through its flags. completion-values reads it through the flags of the command line that it
// completes. Results go to standard output, errors to standard error.
package command
