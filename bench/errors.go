package bench

import "fmt"

// Exit codes of the command, beside 0.
const (
	ExitFailed    = 1  // the run failed: no request was answered
	ExitUsage     = 2  // wrong flags, an unreachable target, a wrong key, an unknown model, a malformed data set
	ExitNotValid  = 98 // the result is not valid: see its verdict
	ExitThreshold = 99 // an assertion or a regression bound was not met
)

// Error is an error with the exit code that the process should end with.
type Error struct {
	Code int
	Text string
}

// Error returns one line for people.
func (e *Error) Error() string { return e.Text }

// ExitCode returns Code; it is how main learns of it.
func (e *Error) ExitCode() int { return e.Code }

func usagef(format string, args ...any) error {
	return &Error{ExitUsage, fmt.Sprintf(format, args...)}
}
