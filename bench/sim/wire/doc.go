// Package wire writes the two formats that every simulated engine sends: JSON and server-sent
// events.
//
// JSON is written member by member instead of being marshalled, because engines differ in member
// order and in what they omit, and the simulator must reproduce both to the byte.
//
// An event has one usual format, the zero EventFormat. Many other formats are equally legal and
// break careless readers: CRLF, comments, data on several lines. Faults select these formats. The
// package knows neither engines nor faults, so a format can be tested with any data.
package wire
