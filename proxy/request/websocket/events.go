package websocket

import (
	"bytes"
	"strconv"

	"penstock/translate/jsonx"
)

// eventWriter converts stream events to messages. It stores the response contained in the last
// event, so that later turns can continue it.
type eventWriter struct {
	peer             *messageWriter
	lanes            *conversationLanes
	turn             *responseTurn
	toLane, fromLane *conversationLane
	isStored         bool // whether the response was stored
	omittedEvents    int
	responseHeaders  []headerField // response headers, which are sent in the first event
	messagePrefix    []byte        // bytes at the start of every message on a named lane
	pieces           [][]byte
}

var (
	eventPrefix = []byte("event: ")
	dataPrefix  = []byte("data: ")
	eventEnd    = []byte("\n\n")
)

// Write implements io.Writer. p contains complete events, each of which has one data line. Write
// drops comments and the stream's end marker. An error event and the failed response after it would
// each end the turn. Write therefore omits the error event and corrects the sequence number of the
// failed response.
func (w *eventWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var event []byte
		event, rest, _ = bytes.Cut(rest, eventEnd)
		name, data, ok := bytes.Cut(event, []byte{'\n'})
		if name, named := bytes.CutPrefix(name, eventPrefix); ok && named {
			if string(name) == "error" {
				w.omittedEvents++
				continue
			}
			data, _ = bytes.CutPrefix(data, dataPrefix)
			if err := w.peer.send(w.encodeMessage(name, data)...); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

func (w *eventWriter) encodeMessage(name, data []byte) [][]byte {
	w.pieces = w.pieces[:0]
	if len(w.messagePrefix) > 0 {
		w.pieces = append(w.pieces, w.messagePrefix)
	}
	// This event contains the response headers that a POST would get.
	if len(w.responseHeaders) > 0 && string(name) == "response.created" {
		w.pieces = append(w.pieces, appendHeadersMember([]byte{'{'}, w.responseHeaders))
	}
	before := len(w.pieces)
	switch string(name) {
	case "response.completed", "response.incomplete":
		w.appendResponseEvent(data, true)
	case "response.created", "response.in_progress", "response.failed":
		w.appendResponseEvent(data, false)
	default:
		w.pieces = append(w.pieces, data)
	}
	for i := 1; i <= before; i++ { // merges the pieces into one JSON object
		w.pieces[i] = w.pieces[i][1:]
	}
	return w.pieces
}

// appendResponseEvent appends the pieces of an event that contains a response. If the turn
// continues an earlier response, appendResponseEvent adds the id of that response. If ended is
// true, it stores the response.
func (w *eventWriter) appendResponseEvent(data []byte, ended bool) {
	if w.turn.previousID == "" && !ended && w.omittedEvents == 0 {
		w.pieces = append(w.pieces, data)
		return
	}
	p := parserPool.Get().(*eventParser)
	defer p.recycle()
	if p.doc.Parse(data, eventParseOptions) != nil {
		panic("BUG: an event is not JSON")
	}
	response := p.doc.Root().Get("response")
	if ended {
		output := response.Get("output").Raw()
		w.lanes.storeResponse(w.toLane, w.fromLane, stringValue(response.Get("id")), w.turn.input, output[1:len(output)-1])
		w.isStored = true
	}
	if number := p.doc.Root().Get("sequence_number"); w.omittedEvents > 0 {
		n, _ := number.Int()
		p.edits.Set(number, strconv.AppendInt(nil, n-int64(w.omittedEvents), 10))
	}
	if w.turn.previousID != "" {
		p.edits.Set(response.Get("previous_response_id"), append(append([]byte{'"'}, w.turn.previousID...), '"'))
	}
	w.pieces = p.edits.Segments(w.pieces, data)
}

// eventParseOptions are the options for parsing the edge's events, which may repeat any part of the
// request.
var eventParseOptions = jsonx.Options{Record: 2, MaxDepth: jsonx.DefaultMaxDepth + 8}
