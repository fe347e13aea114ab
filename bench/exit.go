package bench

import "fmt"

// Exit codes of `penstock bench`, besides 0 for all well and 2 for wrong usage.
const (
	ExitFailed    = 1  // the run could not be done
	ExitInvalid   = 98 // the result is not valid: the verdict says why
	ExitThreshold = 99 // an assertion does not hold, or a measure is worse than the baseline allows
)

// ExitError ends the process with a code of its own. Its text is for the operator; empty: all has been said.
type ExitError struct {
	Code int
	Text string
}

// Error is the text.
func (e *ExitError) Error() string { return e.Text }

// ExitCode is the code.
func (e *ExitError) ExitCode() int { return e.Code }

// usageError is a mistake in what the command line or a file says.
func usageError(format string, v ...any) error {
	return &ExitError{Code: 2, Text: fmt.Sprintf(format, v...)}
}
