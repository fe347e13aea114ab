// Package failure decides what a failure means. Only this package turns a fact (an engine failed, a
// pool is full, a client has left) into an API error, an outcome for the upstream's health, a
// metric label, and the cause from which package retry decides the next step.
//
// proxy/operate/reference/errors.md lists the statuses and codes that clients see; TestMeanings
// checks the meaning of each failure. Apart from this package, only the dialects (package endpoint)
// change statuses and shapes.
package failure
