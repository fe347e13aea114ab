// Package template renders the templates of text/template's language, in which the status page,
// the report of a load test and the pages of simulated engines are written.
//
// It is there for the size of the program. The standard library's renderer calls methods by names
// that it reads at run time. Where it is linked in, the linker keeps each exported method of each
// type that reaches an interface: 13 of 36 MB, most of them commands of the store's client.
// This renderer calls no method by name. What a template uses as a method, {{.Idle}}, is a function
// of its set that takes the value first: "Idle": (*Model).Idle. Methods of what a struct embeds
// are not found by way of the struct.
//
// Parsing is the standard library's. Of the language break, continue, block and channels are left
// out. Tests render the same templates with the standard library and compare.
package template
