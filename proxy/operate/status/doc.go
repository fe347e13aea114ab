// Package status describes the running edge for an operator: in one sentence, by model, by upstream
// and by call; as JSON, as a page for browsers and as text for terminals. It reads and never
// changes anything.
//
// # Design
//
// One Status is gathered and everything is a view of it, so the page, its JSON twin and the
// terminal cannot disagree. For terminals it is a list of tables (tables.go), which are printed as
// text (terminal.go) or shown by package top. The page is rendered here and only here: what is sent
// while it is open are the same sections again, as far as they differ, and of tables the cells that
// do (renewal.go): parsing all of them was most of what the page cost. The alternative, a page that
// draws itself from the JSON, is blank without its script and has a second place where a name must
// be escaped.
//
// The page holds its own style and script and asks for nothing else. Its policy names the two by
// hash, so whatever a model or an upstream is called, no text of the page can become a script.
//
// The sentence on top follows what became of the last minute's calls, beside probes and breakers:
// an engine that answers its probes and breaks every stream is trouble. Where trouble begins is in
// one table (bounds.go), which the alerts of .deploy share.
//
// An upstream has one badge, the worst of its mode, health, breaker and share of failures (badge.go):
// an engine that answers its probes and fails two calls in five is not up for those who call it.
//
// What needs an operator comes first (order.go), and what is idle is folded where there are many
// rows. Upstreams have one line each, in two columns where a screen is wide enough, so that fifty are
// seen at once; what else is known of one lies over the rows below it when asked for. Beside what is
// wrong stands where to read what to do about it (runbook.go): the page of the troubleshooting
// document's alerts, which the edge serves itself. What one look cannot tell, since when and how often, a Watch remembers: it sees the state
// each second, whether a page is open or not, and keeps 200 events and, of each model and upstream
// of the configuration, an hour of minutes (3 KB). What an upstream does between two looks it has
// counted itself (upstreams.Status.Downs), so that no change is lost.
//
// Calls that failed, were slow or were refused are shown, and have a page each, long after the good
// ones have pushed them out of the newest (observe.Recent). The page of a call that is not remembered
// says what to look for in the log.
//
// What keys have used of models stands on a page of its own, which is not renewed: of a fleet it is
// read from the store for each look at it (usage.go).
//
// An open page changes only what differs, so that a selection, a focus and a sorted table survive
// each second, and rows keep their places while the pointer or the focus is among them: what would
// move waits. Screen readers hear of trouble when its subject changes.
//
// Every number says where it comes from (the source of a limit, the age of an engine's report),
// what is not known is a dash and not a zero, nothing is averaged over models, and no state is told
// by colour alone.
package status
