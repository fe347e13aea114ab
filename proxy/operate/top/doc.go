// Package top shows a running edge in a terminal: the sentence of the status page, and a table of
// models, upstreams, calls, keys, refusals, events or edges, those in trouble first. What needs
// sorting, filtering or scrolling is for the status page in a browser.
//
// # Design
//
// What is shown is package status's (its tables); this package owns the terminal. One goroutine,
// that of Run, has the view and draws it. Three others only send it events: what was typed, that
// the window has another size, and what the edge has answered, so that a slow edge delays no key.
// A frame is drawn whole, in one write, line over line, so nothing flickers and nothing scrolls.
//
// The terminal is given back however Run ends: by q, by a signal of the caller's context, or by a
// panic, which passes on through Run after that. A panic of the goroutine that asks the edge
// becomes Run's own for this reason.
//
// golang.org/x/term switches the terminal to single keys, which differs by system. A library for
// whole screens would bring its own model of events and a tenth of the program's size for one
// table.
package top
