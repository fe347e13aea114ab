package proxy

import _ "embed" // for the reference

//go:embed reference/errors.md
var errorReference string

// ErrorReference returns the table of the codes of errors with their causes and remedies.
func ErrorReference() string { return errorReference }
