// Package reference has the pages that are made from the code. A test of the documents writes them.
package reference

import _ "embed" // for the page below

// Errors is the table of the codes of errors, each with its cause and remedy, as Markdown.
//
//go:embed errors.md
var Errors string
