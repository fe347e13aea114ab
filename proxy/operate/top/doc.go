// Package top shows a running edge in a terminal: the sentence of the status page, and a table of
// models, upstreams, calls, keys, refusals, events or edges. Rows with a problem come first. The
// status page in a browser also sorts, filters and scrolls.
//
// # Design
//
// Package status supplies the content (its tables); this package controls the terminal. The
// goroutine of Run holds the view and draws it. Three other goroutines only send it events: typed
// keys, a changed window size, and the edge's answers. Thus a slow edge delays no key. A frame is
// drawn in one write, line over line, so nothing flickers or scrolls.
//
// The terminal is restored however Run ends: because the user typed q, because the caller's context
// ended, or because of a panic, which then continues. For this reason a panic in the goroutine that
// asks the edge is raised again in Run.
//
// golang.org/x/term makes the terminal deliver single keys, which works differently on each system.
// A full-screen library would bring its own event model, and make the program a tenth larger for
// one table.
package top
