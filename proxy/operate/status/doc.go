// Package status describes the running edge for an operator: in one sentence, by model, by upstream
// and by call; as JSON, as a page for browsers and as text for terminals. It reads and never
// changes anything.
//
// # Design
//
// One Status is gathered and everything is a view of it, so the page, its JSON twin and the
// terminal cannot disagree. For terminals it is a list of tables (tables.go), which are printed as
// text (terminal.go) or shown by package top. The page is rendered only here. An open page gets the
// same sections again, as far as they differ, and of tables only the changed cells (renewal.go):
// parsing all of them was most of what the page cost. The alternative, a page that draws itself
// from the JSON, is blank without its script and has a second place where a name must be escaped.
//
// The page holds its own style and script and loads nothing else. Its policy names the two by hash,
// so no text of the page can become a script, whatever a model or an upstream is called.
//
// The sentence on top reflects the outcomes of the last minute's calls, besides probes and
// breakers: an engine that answers its probes and breaks every stream is trouble. One table says
// where trouble begins (bounds.go); the alerts of .deploy share it.
//
// An upstream has one badge, the worst of its mode, health, breaker and share of failures
// (badge.go). An engine that answers its probes but fails two calls in five is not up for its
// callers.
//
// What needs an operator comes first (order.go), and idle rows are folded where there are many.
// Upstreams have one line each, in two columns where a screen is wide enough, so that fifty are
// visible at once; an upstream's details cover the rows below it on request. Each trouble links to
// the text that says what to do about it (runbook.go): the page of the troubleshooting document's
// alerts, which the edge serves itself. One look cannot tell how long something has been wrong, or
// how often. A Watch remembers that: it sees the state each second, whether a page is open or not,
// and keeps 200 events and, for each model and upstream of the configuration, an hour of minutes (3
// KB). An upstream itself counts what it does between two looks (upstreams.Status.Downs), so that
// no change is lost.
//
// Calls that failed, were slow or were refused are shown, and have a page each, long after the good
// ones have pushed them out of the newest (observe.Recent). The page of a forgotten call says what
// to look for in the log.
//
// What keys have used of models has a page of its own, which does not renew itself: for a fleet,
// each view of it reads the store (usage.go).
//
// An open page changes only what differs, so that a selection, a focus and a sorted table survive
// each second. Rows keep their places while the pointer or the focus is among them: a row that
// would move waits. Screen readers announce trouble when its subject changes.
//
// Every number says where it comes from (the source of a limit, the age of an engine's report). An
// unknown value is a dash, not a zero, nothing is averaged over models, and colour alone never
// tells a state.
package status
