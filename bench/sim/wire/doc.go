// Package wire writes the two texts that every simulated engine sends: JSON and server-sent events.
//
// JSON is written member by member and not marshalled, because engines differ in the order of their
// members and in what they leave out, and the simulator has to show that to the byte.
//
// An event has one usual form, which is the zero EventFormat, and many others that are as legal and
// that a careless reader breaks on: CRLF, comments, data in several lines. Faults select them. The
// package knows neither engines nor faults, so a form is tested against any data.
package wire
