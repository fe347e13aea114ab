// Package admin is the operator's side of the admin listener: what a reload is asked for and how it
// ended, as both sides send it, and the commands that ask a running edge (reload, ready, top). The
// edge's own handlers are in package proxy.
//
// # Design
//
// A command sends one request over a connection of its own and ends. What an edge answers may come
// from another program, so all of it passes package plaintext before a terminal sees it.
package admin
