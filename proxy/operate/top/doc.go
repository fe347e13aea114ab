// Package top shows a running edge in a terminal: the sentence of the status page, and a table of
// models, upstreams, calls, keys, refusals, events or edges. Unlike the status page in a browser,
// it does not sort, filter or scroll.
//
// # Design
//
// Package status supplies the tables, and this package controls the terminal. The goroutine of Run
// owns the view and draws it. Three other goroutines only send it events: typed keys, changes of
// the window size, and the edge's responses. A slow edge therefore does not delay keys. A frame is
// drawn in one write, over the previous frame, so the screen does not flicker or scroll.
//
// Run restores the terminal when the user types q, when the caller's context ends, and when it
// panics, before the panic propagates. If the goroutine that queries the edge panics, the panic is
// therefore raised again in Run.
//
// golang.org/x/term switches the terminal to single keys, which requires different code on each
// system. A full-screen library would make the program a tenth larger for one table.
package top
