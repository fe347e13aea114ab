// Package status describes the running edge for an operator: in one sentence, by model, by upstream
// and by call; as JSON, as a page for browsers and as text for terminals. It reads and never
// changes anything.
//
// # Design
//
// One Status is gathered and everything is a view of it, so the page, its JSON twin and the
// terminal cannot disagree. The page is rendered here and only here: what is sent while it is open
// are the same sections again, as far as they differ. The alternative, a page that draws itself
// from the JSON, is blank without its script and has a second place where a name must be escaped.
//
// The page holds its own style and script and asks for nothing else. Its policy names the two by
// hash, so whatever a model or an upstream is called, no text of the page can become a script.
//
// Every number says where it comes from (the source of a limit, the age of an engine's report),
// what is not known is a dash and not a zero, nothing is averaged over models, and no state is told
// by colour alone.
package status
