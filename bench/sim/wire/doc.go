// Package wire writes the two formats that every simulated engine sends: JSON and server-sent
// events.
//
// JSON is written member by member instead of being marshalled, because engines differ in member
// order and in what they omit, and the simulator must reproduce both to the byte.
//
// An event has one usual form, the zero EventFormat, and many others that are equally legal and
// that break careless readers: CRLF, comments, data on several lines. Faults select them. The
// package knows neither engines nor faults, so a form can be tested against any data.
package wire
