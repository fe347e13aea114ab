// Package exit defines the exit codes of `penstock bench` and the error type that carries one.
// Every package of the load tester can import it.
package exit

import "fmt"

// Exit codes of `penstock bench`. 0 means success.
const (
	Failed        = 1  // the run failed, no request was answered, or two results have nothing in common
	Usage         = 2  // wrong flags, an unreachable target, a wrong key, an unknown model, a malformed file
	InvalidResult = 98 // the result is invalid, as its verdict explains
	CheckFailed   = 99 // a check failed, or a search missed its objectives at every load
)

// Error carries the exit code with which the process ends. Text is printed for the operator. It is
// empty if everything has already been printed.
type Error struct {
	Code int
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// ExitCode returns the code.
func (e *Error) ExitCode() int { return e.Code }

// NewError returns an error with an exit code.
func NewError(code int, text string) error { return &Error{Code: code, Text: text} }

// Usagef returns an error for a mistake in the command line or a file.
func Usagef(format string, v ...any) error { return NewError(Usage, fmt.Sprintf(format, v...)) }
