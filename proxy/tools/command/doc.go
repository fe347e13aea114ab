// Package command is the command line of the program but for `bench` and `sim`: the flags of each
// command, its words of help, and the one function that it calls. main.go puts the commands
// together. A command reads no environment but by its flags (completion-values by those of the line
// that it completes), and prints to standard output what was asked for, to standard error what went
// wrong.
package command
