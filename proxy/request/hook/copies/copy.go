package copies

import "time"

// Copy is the copy of a running call for one hook. A Copy belongs to the goroutine of the call. If
// multiple hooks copy the call, their copies form a linked list.
type Copy struct {
	Model string // model that the client requested

	sink            *hookSink
	next            *Copy
	maxBytes        int
	request, answer capturedBody
	reserved        int64
	dropped         bool // whether the copy was dropped because no memory was left for it
}

type capturedBody struct {
	bytes []byte
	size  int64 // size of the complete request or answer
}

const minBufferBytes = 1 << 10

// AddRequest adds the bytes of the request.
func (c *Copy) AddRequest(b []byte) {
	for ; c != nil; c = c.next {
		c.appendBytes(&c.request, b)
	}
}

// AddAnswer adds bytes that were written to the client.
func (c *Copy) AddAnswer(b []byte) {
	for ; c != nil; c = c.next {
		c.appendBytes(&c.answer, b)
	}
}

func (c *Copy) appendBytes(to *capturedBody, b []byte) {
	to.size += int64(len(b))
	b = b[:min(len(b), c.maxBytes-len(to.bytes))]
	if len(b) == 0 || c.dropped {
		return
	}
	if need := len(to.bytes) + len(b); need > cap(to.bytes) {
		size := min(c.maxBytes, max(need, 2*cap(to.bytes), minBufferBytes))
		if !c.sink.reserve(int64(size)) {
			c.dropCopy()
			return
		}
		old := to.bytes
		to.bytes = append(make([]byte, 0, size), old...)
		c.sink.releaseBytes(int64(cap(old)))
		c.reserved += int64(size - cap(old))
	}
	to.bytes = append(to.bytes, b...)
}

func (c *Copy) dropCopy() {
	c.sink.releaseBytes(c.reserved)
	c.reserved, c.request.bytes, c.answer.bytes, c.dropped = 0, nil, nil, true
}

// CallInfo describe a call.
type CallInfo struct {
	RequestID, Key, Endpoint string
	Model                    string // model that answered the call, or that would have answered it
	Stream                   bool
	Start                    time.Time
	Took, TTFT               time.Duration // TTFT is 0 if there was no answer
	Status                   int
	Outcome, Code            string
}

// End passes every Copy in the list to its sink. The copies must not be used afterwards.
func (c *Copy) End(f *CallInfo) {
	for ; c != nil; c = c.next {
		if c.dropped {
			c.sink.recordLost(1, lossReasonFull)
			continue
		}
		c.sink.enqueue(&queuedCopy{CallInfo: *f, requested: c.Model, request: c.request, answer: c.answer, reserved: c.reserved})
	}
}
