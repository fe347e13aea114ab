// Package command implements the program's command line, except for `bench` and `sim`. It has the
// flags of each command, its help, and the function that it calls. main.go combines the commands. A
// command reads the environment only through its flags (completion-values through the flags of the
// line that it completes). It prints results to standard output and errors to standard error.
package command
