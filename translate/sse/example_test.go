package sse_test

import (
	"fmt"
	"io"
	"strings"

	"penstock/translate/sse"
)

func ExampleReader() {
	stream := ": welcome\r\n\r\nevent: delta\r\ndata: one\r\ndata: two\r\n\r\ndata:[DONE]"
	r := sse.NewReader(strings.NewReader(stream), 8<<20)
	for {
		ev, err := r.NextEvent()
		if err == io.EOF {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%q %q\n", ev.Name, ev.Data)
	}
	// Output:
	// "delta" "one\ntwo"
	// "" "[DONE]"
}

func ExampleAppendEvent() {
	out := sse.AppendComment(nil, "keep-alive")
	out = sse.AppendEvent(out, "ping", []byte(`{"type":"ping"}`))
	fmt.Printf("%s", out)
	// Output:
	// : keep-alive
	//
	// event: ping
	// data: {"type":"ping"}
}
