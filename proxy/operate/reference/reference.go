// Package reference contains the pages that are generated from the code. A test in
// proxy/e2e/documents writes them.
package reference

import _ "embed" // embeds the pages

// ErrorsMarkdown is the table of error codes with their causes and remedies, as Markdown.
//
//go:embed errors.md
var ErrorsMarkdown string

// LogMarkdown explains, in Markdown, the log lines and the terms that the log shares with the status page.
// The sections Events, Outcomes, Causes, States and Features each contain a table of terms and
// meanings.
//
//go:embed log.md
var LogMarkdown string
