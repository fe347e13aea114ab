// Package wire writes the two formats that every simulated engine sends: JSON and server-sent
// events.
//
// JSON is written member by member rather than marshalled. Engines differ in the order of members
// and in the members that they omit. The simulator must reproduce their JSON byte for byte.
//
// The zero EventFormat is the usual format of events. Many other formats are equally legal but
// break careless readers: CRLF, comments, or data on more than one line. Faults select these
// formats. The package depends on neither engines nor faults, so a format can be tested with any
// data.
package wire
