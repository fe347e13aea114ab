package answer_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"penstock/translate/chat/answer"
	"penstock/translate/sse"
)

// The client receives the public model in each chunk. It receives a usage chunk only if it
// requested usage, and [DONE] only after the choice has a finish_reason.
func ExampleStream() {
	upstream := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"served","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"served","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}

data: [DONE]

`
	var s answer.Stream
	s.Reset(&answer.WriteOptions{Model: "public"})
	events := sse.NewReader(strings.NewReader(upstream), 8<<20)
	var out []byte
	for {
		ev, err := events.NextEvent()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			out, err = s.Append(out, ev)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	out, err := s.Finish(out)
	fmt.Printf("%s%v %d", out, err, s.Usage().Total)
	// Output:
	// data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"public","choices":[{"index":0,"delta":{"content":"Hi","role":"assistant"},"finish_reason":null}]}
	//
	// data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"public","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}
	//
	// data: [DONE]
	//
	// <nil> 6
}
