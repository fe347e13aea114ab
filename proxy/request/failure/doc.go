// Package failure classifies failures. It covers, for example, a failed engine, a full pool and a
// client that has disconnected. Only this package maps a failure to:
//
//   - an API error,
//   - an outcome for the upstream's health,
//   - a metric label,
//   - the cause for which package retry chooses the next step.
//
// proxy/operate/reference/errors.md lists the statuses and codes for clients. TestMeanings checks
// the classification of each failure. After a failure is classified, only the dialects (package
// endpoint) change its status and format.
package failure
