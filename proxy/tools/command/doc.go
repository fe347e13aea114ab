// Package command is the command line of the program, except for `bench` and `sim`: the flags of
// each command, its help, and the one function that it calls. main.go puts the commands together. A
// command reads the environment only through its flags (completion-values through those of the line
// that it completes). It prints the requested output to standard output, and errors to standard
// error.
package command
