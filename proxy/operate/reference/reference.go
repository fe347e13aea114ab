// Package reference holds the pages generated from the code. A test of the documents writes them.
package reference

import _ "embed" // for the page below

// Errors is the table of error codes, each with its cause and remedy, as Markdown.
//
//go:embed errors.md
var Errors string
