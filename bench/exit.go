package bench

import "fmt"

// Exit codes of `penstock bench`, besides 0 for all well.
const (
	ExitFailed    = 1  // the run could not be done, no request was answered, or two results have nothing to compare
	ExitUsage     = 2  // wrong flags, an unreachable target, a wrong key, an unknown model, a malformed file
	ExitInvalid   = 98 // the result is not valid: the verdict says why
	ExitThreshold = 99 // an assertion does not hold, a measure is worse than the baseline allows, or a search met its objectives at no load
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
	return &ExitError{Code: ExitUsage, Text: fmt.Sprintf(format, v...)}
}
