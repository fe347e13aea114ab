// Package status describes the running edge for an operator: in one sentence, by model, by upstream
// and by call. It writes JSON, a page for browsers and text for terminals. It changes nothing.
//
// # Design
//
// All outputs are views of one Status, so the page, its JSON form and the terminal cannot disagree.
// For terminals the Status becomes a list of tables (tables.go), which are printed as text
// (terminal.go) or shown by package top. The page is rendered only here. An open page gets the
// sections that have changed, and of tables only the changed cells (renewal.go), because parsing
// whole tables was most of the page's cost. A page that draws itself from the JSON would be blank
// without its script, and names would have to be escaped in a second place.
//
// The page holds its own style and script and loads nothing else. Its policy allows only these two,
// by their hashes, so no text on the page can become a script, however a model or an upstream is
// named.
//
// The sentence at the top reflects not only probes and breakers, but also how the last minute's
// calls ended. An engine that answers its probes but breaks every stream is a problem. One table
// has the thresholds for problems (bounds.go), and the alerts in .deploy use its values.
//
// An upstream has one badge, for the worst of its mode, health, breaker and failure rate
// (badge.go). An engine that answers its probes but fails two calls in five does not count as up.
//
// Rows that need an operator come first (order.go), and idle rows are folded if there are many.
// Upstreams have one line each, in two columns if the screen is wide enough, so that fifty are
// visible at once. On request, an upstream's details cover the rows below. Each problem links to
// the text that tells what to do about it (runbook.go). That text is on a page with the alerts of
// the troubleshooting document, which the edge itself serves. A single state cannot show how long a
// problem has lasted, or how often it has occurred. A Watch records that. It sees the state every
// second, even if no page is open. It keeps 200 events and, for each model and upstream in the
// configuration, one hour by minutes (3 KB). Each upstream counts its own changes between two of
// these checks (upstreams.Status.Downs), so that no change is lost.
//
// Calls that failed, were slow or were refused are shown, and have a page each, long after newer
// good calls have displaced them among the newest calls (observe.Recent). For a forgotten call the
// page says what to look for in the log.
//
// The usage of models by keys has its own page, which does not refresh itself. For a fleet, each
// view of it reads the store (usage.go).
//
// An open page changes only the nodes that differ, so that a selection, a focus and a sorted table
// stay in place at each update. Rows keep their order while the pointer or the focus is among them.
// Screen readers announce a problem if it concerns a new subject.
//
// Every number is shown with its origin (the source of a limit, the age of an engine's report). An
// unknown value is a dash, not a zero. Nothing is averaged over models, and no state is shown by
// colour alone.
package status
