// Package status describes the running edge for an operator: in one sentence, and for each model,
// upstream and call. It writes JSON, a web page, and text for terminals. It never changes the edge.
//
// # Design
//
// All outputs are views of one Status, so the page, its JSON form and the terminal cannot disagree.
// For terminals, the Status is converted to a list of tables (tables.go), which are printed as text
// (terminal.go) or shown by package top. The page is rendered only on the server. An open page
// receives only the sections that have changed. In tables, it receives only the changed cells
// (renewal.go), because browsers spent most of their time parsing entire tables.
//
// The page contains its style and its script, and loads nothing else. Its policy allows only this
// style and this script, by their hashes. No text on the page can therefore become a script, no
// matter how the models and upstreams are named.
//
// The sentence at the top reflects probes, breakers, and how calls ended in the last minute. An
// engine that answers its probes but breaks every stream is a problem. One table contains the
// thresholds for problems (thresholds.go), and the alerts in .deploy use the same values.
//
// An upstream has one badge, for the worst of its mode, health, breaker and failure rate
// (badge.go).
//
// Rows that need an operator come first (ranks.go), and idle rows are folded if there are many.
// Each upstream has one line. A wide screen shows two columns, so that fifty upstreams are visible
// at once. Each problem links to a text about how to fix it (runbook.go).
//
// A single state cannot show how long a problem has lasted, or how often it has occurred. A
// StateWatch records both. It stores 200 events and, for each model and upstream in the
// configuration, an hour of history by minute (3 KB). Each upstream counts its changes between two
// checks by the StateWatch (upstreams.Status.Downs), so that no change is lost.
//
// Calls that failed, were slow or were refused stay visible, each with a page, long after other
// calls have been displaced by newer calls (observe.RecentCalls).
//
// An open page changes only the nodes that differ, so that an update preserves the selection, the
// focus and the sorting of tables. Rows do not move while the pointer or the focus is on one of
// them. Screen readers announce a problem only if it concerns a new subject.
//
// Every number is shown with its origin (the source of a limit, the age of an engine's report). An
// unknown value is a dash, not a zero. No number is averaged over models, and no state is shown by
// colour alone.
package status
