package copies

import "time"

// Copy is the copy of a running call for one hook. A Copy belongs to the goroutine of the call. If
// multiple hooks copy the call, their Copies form a linked list.
type Copy struct {
	Model string // model that the client requested

	of              *hookSink
	next            *Copy
	most            int
	request, answer part
	held            int64
	dropped         bool // whether the copy was dropped because no memory was left for it
}

type part struct {
	bytes []byte
	size  int64 // size of the complete request or answer
}

const leastPart = 1 << 10

// Request adds the bytes of the request.
func (c *Copy) Request(b []byte) {
	for ; c != nil; c = c.next {
		c.add(&c.request, b)
	}
}

// Answer adds bytes that were written to the client.
func (c *Copy) Answer(b []byte) {
	for ; c != nil; c = c.next {
		c.add(&c.answer, b)
	}
}

func (c *Copy) add(to *part, b []byte) {
	to.size += int64(len(b))
	b = b[:min(len(b), c.most-len(to.bytes))]
	if len(b) == 0 || c.dropped {
		return
	}
	if need := len(to.bytes) + len(b); need > cap(to.bytes) {
		size := min(c.most, max(need, 2*cap(to.bytes), leastPart))
		if !c.of.reserve(int64(size)) {
			c.drop()
			return
		}
		old := to.bytes
		to.bytes = append(make([]byte, 0, size), old...)
		c.of.free(int64(cap(old)))
		c.held += int64(size - cap(old))
	}
	to.bytes = append(to.bytes, b...)
}

func (c *Copy) drop() {
	c.of.free(c.held)
	c.held, c.request.bytes, c.answer.bytes, c.dropped = 0, nil, nil, true
}

// Facts describe a call.
type Facts struct {
	RequestID, Key, Endpoint string
	Model                    string // model that answered, or that would have answered
	Stream                   bool
	Start                    time.Time
	Took, TTFT               time.Duration // TTFT is 0 if there was no answer
	Status                   int
	Outcome, Code            string
}

// End passes every Copy in the list to its sink. The Copies must not be used afterwards.
func (c *Copy) End(f *Facts) {
	for ; c != nil; c = c.next {
		if c.dropped {
			c.of.lose(1, lostFull)
			continue
		}
		c.of.put(&entry{Facts: *f, requested: c.Model, request: c.request, answer: c.answer, held: c.held})
	}
}
