package messages_test

import (
	"bytes"
	"fmt"

	"penstock/translate/chat"
	"penstock/translate/dialects"
	"penstock/translate/messages"
	"penstock/translate/sse"
)

func Example() {
	client := []byte(`{"model":"claude-opus","max_tokens":100,"stream":true,"system":"Be brief.","messages":[{"role":"user","content":"Hi!"}]}`)
	var (
		request messages.Request
		engine  chat.Request
	)
	var stream messages.Stream
	body, err := request.Decode(nil, client, &engine, &stream.RequestInfo, dialects.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n\n", body)

	stream.Reset(&dialects.AnswerIdentity{Model: "public-model", ID: "msg_1"})
	events := sse.NewReader(bytes.NewReader([]byte(`data: {"choices":[{"index":0,"delta":{"content":"Hello."}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}

data: [DONE]

`)), 1<<20)
	var out []byte
	for !stream.IsDone() {
		ev, err := events.NextEvent()
		if err != nil {
			break
		}
		if out, err = stream.Append(out, ev); err != nil {
			fmt.Println(err)
			return
		}
	}
	if out, err = stream.Finish(out); err != nil {
		fmt.Println(err)
		return
	}
	for ev := range bytes.SplitSeq(out, []byte("\n\n")) {
		name, _, _ := bytes.Cut(ev, []byte("\n"))
		fmt.Printf("%s\n", name)
	}
	// Output:
	// {"model":"claude-opus","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi!"}],"max_tokens":100,"stream":true}
	//
	// event: message_start
	// event: content_block_start
	// event: content_block_delta
	// event: content_block_stop
	// event: message_delta
	// event: message_stop
}
