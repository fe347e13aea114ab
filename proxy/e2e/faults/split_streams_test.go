package faults

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/proxy/e2e/rig"
)

// splitPieces returns the pieces of text that the engine streams in the call with the given number.
// Every tenth piece is larger than a read buffer, so that a single read returns the end of this
// piece together with the following pieces.
func splitPieces(call int) (all []string) {
	for i := range 150 {
		piece := fmt.Sprintf("%d:%d ", call, i)
		if i%10 == 9 {
			piece = strings.Repeat(piece, 20<<10/len(piece))
		}
		all = append(all, piece)
	}
	return all
}

// TestSplitStreams checks that simultaneous streams stay separate and complete if the engine's
// events and chunks are split at arbitrary bytes. An incomplete event must be retained until its
// remaining bytes have arrived.
func TestSplitStreams(t *testing.T) {
	t.Parallel()
	engine := startFakeEngine(t, func(c *fakeCall) {
		c.head("text/event-stream", -1)
		pause := func() { time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) }
		var chunk strings.Builder
		event := func(data string) {
			chunk.WriteString("data: " + data + "\n\n")
			if rand.IntN(2) == 0 { // the next event shares this chunk
				return
			}
			text := fmt.Sprintf("%x\r\n%s\r\n", chunk.Len(), &chunk)
			chunk.Reset()
			if n := rand.IntN(2 * len(text)); n < len(text) {
				c.send(text[:n])
				pause()
				text = text[n:]
			}
			c.send(text)
			pause()
		}
		for _, piece := range splitPieces(c.number) {
			event(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{"content":` + strconv.Quote(piece) + `},"finish_reason":null}]}`)
		}
		event(`{"id":"x","object":"chat.completion.chunk","created":1,"model":"sim","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		c.send(fmt.Sprintf("%x\r\n%s\r\n", chunk.Len()+14, chunk.String()+"data: [DONE]\n\n"))
		c.chunk("")
	})
	e := start(t, rig.Setup{
		Upstreams: fmt.Sprintf("- { name: cut, url: %q, engine: sim, concurrency: 64, %s }\n", engine.url, rig.QuietProbes),
		Models:    "- { id: cut, deployments: [{ upstream: cut, served: sim }] }\n",
	})
	var clients sync.WaitGroup
	for _, w := range rig.StreamRequestTypes {
		for range 5 {
			clients.Go(func() {
				for range 3 {
					text := e.Post(w.Path, w.RequestBody("cut", rig.Prompt, "")).VisibleText(w)
					number, _, _ := strings.Cut(text, ":")
					call, err := strconv.Atoi(number)
					if want := strings.Join(splitPieces(call), ""); err != nil || text != want {
						t.Errorf("%s: got %d bytes of text that are not call %q's, want %d bytes", w, len(text), number, len(want))
					}
				}
			})
		}
	}
	clients.Wait()
}
