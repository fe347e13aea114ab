package sse

import "bytes"

// Event is one server-sent event. Its slices are valid until the next call to NextEvent.
type Event struct {
	Name []byte // from the last "event" field; empty if the event has no name
	Data []byte // from all "data" fields, joined by "\n"; never nil in an event from NextEvent
}

// IsBlank reports whether the event only keeps the connection alive: it has no data, or only null,
// which llama.cpp sends, or it is a ping, which gateways send.
func (e Event) IsBlank() bool {
	if string(e.Name) == "ping" {
		return true
	}
	if len(e.Data) > 0 && e.Data[0] == '{' {
		return false
	}
	data := bytes.TrimSpace(e.Data)
	return len(data) == 0 || string(data) == "null"
}

// setWhole sets e to the event in b. It returns false unless b is exactly one event with one data
// line, as written by AppendEvent.
func (e *Event) setWhole(b []byte, limit int) bool {
	n := len(b) - 2
	return n >= 0 && b[n+1] == '\n' && bytes.IndexByte(b, '\n') == n && e.setData(b[:len(b):len(b)], limit)
}

// setData sets e to the event in b, which consists of a line and a blank line. It returns false if the
// line is not a data line as written by AppendEvent.
func (e *Event) setData(b []byte, limit int) bool {
	const field = "data: "
	n := len(b) - 2
	if n < len(field) || n >= limit || string(b[:len(field)]) != field || bytes.IndexByte(b[:n], '\r') >= 0 {
		return false
	}
	e.Name, e.Data = nil, b[len(field):n:n]
	return true
}

// eventFields contains the fields of the current event. Offsets count from the start of the event.
type eventFields struct {
	nameStart, nameEnd int
	name               []byte // the name, if it had to be copied out of the event
	dataStart, dataEnd int
	hasName, hasData   bool
	names              *[2][]byte // buffers for name; nil before the first copy
}

// add reads the line event[start:stop], which must not be empty. Offset 0 of event is the start of
// the current event. add ignores a comment, an id, a retry and an unknown field.
func (f *eventFields) add(event []byte, start, stop int) {
	line := event[start:stop]
	switch {
	case len(line) >= 5 && string(line[:5]) == "data:":
		start += 5
		if start < stop && event[start] == ' ' {
			start++
		}
		f.addData(event, start, stop)
	case string(line) == "data":
		f.addData(event, stop, stop)
	case len(line) >= 6 && string(line[:6]) == "event:":
		start += 6
		if start < stop && event[start] == ' ' {
			start++
		}
		f.nameStart, f.nameEnd, f.name, f.hasName = start, stop, nil, true
	case string(line) == "event":
		f.nameStart, f.nameEnd, f.name, f.hasName = stop, stop, nil, true
	}
}

// addData moves a data line to the end of the previous data lines.
func (f *eventFields) addData(event []byte, start, stop int) {
	if !f.hasData {
		f.dataStart, f.dataEnd, f.hasData = start, stop, true
		return
	}
	if f.hasName && f.name == nil && f.nameStart > f.dataStart {
		// The data would overwrite the name, so copy it.
		if f.names == nil {
			f.names = new([2][]byte)
		}
		f.name = append(f.names[0][:0], event[f.nameStart:f.nameEnd]...) //nolint:gocritic // stored back on the next line
		f.names[0] = f.name
	}
	event[f.dataEnd] = '\n'
	f.dataEnd += 1 + copy(event[f.dataEnd+1:], event[start:stop])
}

// finishEvent stores the event in ev and reports whether the event has data. raw holds the event's
// bytes.
func (f *eventFields) finishEvent(raw []byte, ev *Event) bool {
	found := f.hasData
	if found {
		*ev = Event{Data: raw[f.dataStart:f.dataEnd:f.dataEnd]}
		switch {
		case f.name != nil:
			ev.Name = f.name
			f.names[0], f.names[1] = f.names[1], f.names[0]
		case f.hasName:
			ev.Name = raw[f.nameStart:f.nameEnd:f.nameEnd]
		}
	}
	f.hasName, f.hasData, f.name = false, false, nil
	return found
}
