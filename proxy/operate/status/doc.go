// Package status describes the running edge for an operator: in one sentence, by model, by upstream
// and by call; as JSON, as a page for browsers and as text for terminals. It only reads.
//
// # Design
//
// One Status is gathered, and all outputs are views of it, so the page, its JSON form and the
// terminal cannot disagree. For terminals it is a list of tables (tables.go), which are printed as
// text (terminal.go) or shown by package top. The page is rendered only here. An open page gets the
// sections that have changed, and of tables only the changed cells (renewal.go): parsing whole
// tables was most of the page's cost. The alternative, a page that draws itself from the JSON, is
// blank without its script and has a second place where names must be escaped.
//
// The page holds its own style and script and loads nothing else. Its policy allows only these two,
// by their hashes, so no text of the page can become a script, whatever the name of a model or an
// upstream.
//
// The sentence at the top reflects the outcomes of the last minute's calls, in addition to probes
// and breakers: an engine that answers its probes and breaks every stream is trouble. One table
// defines where trouble begins (bounds.go); the alerts of .deploy use its numbers.
//
// An upstream has one badge, the worst of its mode, health, breaker and share of failures
// (badge.go). An engine that answers its probes but fails two calls in five does not count as up.
//
// Rows that need an operator come first (order.go), and idle rows are folded if there are many.
// Upstreams have one line each, in two columns if the screen is wide enough, so that fifty are
// visible at once. An upstream's details cover the rows below it on request. Each trouble links to
// the text that says what to do about it (runbook.go): the page of the troubleshooting document's
// alerts, which the edge serves itself. A single state cannot show how long something has been
// wrong, or how often. A Watch records that: it sees the state each second, even if no page is
// open, and keeps 200 events and, for each model and upstream of the configuration, one hour by
// minutes (3 KB). An upstream itself counts its changes between two of these checks
// (upstreams.Status.Downs), so that no change is lost.
//
// Calls that failed, were slow or were refused are shown, and have a page each, long after newer
// good calls have displaced them from the newest ones (observe.Recent). The page of a forgotten
// call says what to look for in the log.
//
// The usage of models by keys has its own page, which does not refresh itself: for a fleet, each
// view of it reads the store (usage.go).
//
// An open page changes only what differs, so that a selection, a focus and a sorted table survive
// each second. Rows keep their places while the pointer or the focus is among them. Screen readers
// announce trouble when its subject changes.
//
// Every number shows its origin (the source of a limit, the age of an engine's report). An unknown
// value is a dash, not a zero. Nothing is averaged over models, and no state is shown by colour
// alone.
package status
