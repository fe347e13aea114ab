// Package reference contains the pages that are generated from the code. A test in
// proxy/e2e/documents writes them.
package reference

import _ "embed" // for the embedded pages

// Errors is the table of error codes with their causes and remedies, as Markdown.
//
//go:embed errors.md
var Errors string

// Log explains the lines of the log and the words that they share with the status page, as
// Markdown. The sections Events, Outcomes, Causes, States and Features each have a table of words and
// meanings.
//
//go:embed log.md
var Log string
