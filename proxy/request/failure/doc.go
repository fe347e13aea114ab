// Package failure classifies failures. An event may be a failed engine, a full pool or a client
// that has disconnected. Only this package maps an event to:
//
//   - an API error,
//   - an outcome for the upstream's health,
//   - a metric label,
//   - the cause from which package retry decides the next step.
//
// proxy/operate/reference/errors.md lists the statuses and codes for clients. TestMeanings checks
// the classification of each failure. Only the dialects (package endpoint) change statuses and
// formats afterwards.
package failure
