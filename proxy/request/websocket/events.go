package websocket

import (
	"bytes"
	"strconv"

	"penstock/translate/jsonx"
)

// eventWriter turns the events of a stream into messages. It keeps the response in the last event
// for turns that continue that response.
type eventWriter struct {
	peer     *peer
	lanes    *lanes
	turn     *turn
	to, from *lane
	kept     bool // the response has completed
	leftOut  int  // number of omitted events
	told     []header
	lead     []byte // the text with which every message of a named lane starts
	pieces   [][]byte
}

// The delimiters of a stream's events.
var (
	eventLine = []byte("event: ")
	dataLine  = []byte("data: ")
	eventEnd  = []byte("\n\n")
)

// Write implements io.Writer. p contains whole events, each with one line of data. Comments are
// dropped, because they only keep a stream's reader waiting. Data without an event name only marks
// the end of the stream and is dropped as well. A stream that fails has an error and then the
// failed response. Over WebSocket each of the two would end a turn, so only the response is sent,
// with the error's sequence number.
func (w *eventWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var event []byte
		event, rest, _ = bytes.Cut(rest, eventEnd)
		name, data, ok := bytes.Cut(event, []byte{'\n'})
		if name, named := bytes.CutPrefix(name, eventLine); ok && named {
			if string(name) == "error" {
				w.leftOut++
				continue
			}
			data, _ = bytes.CutPrefix(data, dataLine)
			if err := w.peer.send(w.message(name, data)...); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// message returns the message of an event, in pieces.
func (w *eventWriter) message(name, data []byte) [][]byte {
	w.pieces = w.pieces[:0]
	if len(w.lead) > 0 {
		w.pieces = append(w.pieces, w.lead)
	}
	if len(w.told) > 0 && string(name) == "response.created" { // as in the answer to a POST
		w.pieces = append(w.pieces, appendHeaders([]byte{'{'}, w.told))
	}
	before := len(w.pieces)
	switch string(name) {
	case "response.completed", "response.incomplete":
		w.response(data, true)
	case "response.created", "response.in_progress", "response.failed":
		w.response(data, false)
	default:
		w.pieces = append(w.pieces, data)
	}
	for i := 1; i <= before; i++ { // join the pieces into one object
		w.pieces[i] = w.pieces[i][1:]
	}
	return w.pieces
}

// response appends the pieces of an event whose data contains a response. It adds the id of the
// response that this one continues. If the event ends the stream, the response is kept.
func (w *eventWriter) response(data []byte, ended bool) {
	if w.turn.previous == "" && !ended && w.leftOut == 0 {
		w.pieces = append(w.pieces, data)
		return
	}
	p := parsers.Get().(*parser)
	defer p.recycle()
	if p.doc.Parse(data, eventOptions) != nil {
		panic("BUG: an event is not JSON")
	}
	response := p.doc.Root().Get("response")
	if ended {
		output := response.Get("output").Raw()
		w.lanes.keep(w.to, w.from, textOf(response.Get("id")), w.turn.input, output[1:len(output)-1])
		w.kept = true
	}
	if number := p.doc.Root().Get("sequence_number"); w.leftOut > 0 {
		n, _ := number.Int()
		p.edits.Set(number, strconv.AppendInt(nil, n-int64(w.leftOut), 10))
	}
	if w.turn.previous != "" {
		p.edits.Set(response.Get("previous_response_id"), append(append([]byte{'"'}, w.turn.previous...), '"'))
	}
	w.pieces = p.edits.Segments(w.pieces, data)
}

// eventOptions is for parsing the edge's own events, which may repeat anything in a request.
var eventOptions = jsonx.Options{Record: 2, MaxDepth: jsonx.DefaultMaxDepth + 8}
