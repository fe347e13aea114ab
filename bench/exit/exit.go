// Package exit defines the exit codes of `penstock bench` and the error that carries one. It
// contains nothing else, so every package of the load tester can use it to classify a failure for
// the operator.
package exit

import "fmt"

// Exit codes; 0 means success.
const (
	Failed    = 1  // the run could not be done, no request was answered, or two results have nothing to compare
	Usage     = 2  // wrong flags, an unreachable target, a wrong key, an unknown model, a malformed file
	Invalid   = 98 // the result is not valid: the verdict says why
	Threshold = 99 // a check does not hold, or a search met its objectives at no load
)

// Error ends the process with its own code. Its text is for the operator. The text is empty when
// everything has been printed.
type Error struct {
	Code int
	Text string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// ExitCode returns the code.
func (e *Error) ExitCode() int { return e.Code }

// With returns an error with a code.
func With(code int, text string) error { return &Error{Code: code, Text: text} }

// Usagef returns an error for a mistake in the command line or a file.
func Usagef(format string, v ...any) error { return With(Usage, fmt.Sprintf(format, v...)) }
