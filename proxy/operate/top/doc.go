// Package top shows a running edge in a terminal: the sentence of the status page, and a table of
// models, upstreams, calls, keys, refusals, events or edges, those in trouble first. Sorting,
// filtering and scrolling are left to the status page in a browser.
//
// # Design
//
// Package status supplies what is shown (its tables); this package owns the terminal. One
// goroutine, that of Run, holds the view and draws it. Three others only send it events: typed
// keys, a changed window size, and the edge's answers, so that a slow edge delays no key. A frame
// is drawn whole, in one write, line over line, so nothing flickers and nothing scrolls.
//
// The terminal is restored however Run ends: by q, by a signal of the caller's context, or by a
// panic, which continues through Run after that. For this reason a panic of the goroutine that asks
// the edge becomes Run's own.
//
// golang.org/x/term switches the terminal to single keys, which differs by system. A library for
// whole screens would bring its own event model and add a tenth of the program's size for one
// table.
package top
