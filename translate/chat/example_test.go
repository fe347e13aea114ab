package chat_test

import (
	"errors"
	"fmt"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

func ExampleRequest() {
	body := []byte(`{"model":"llama","messages":[{"role":"user","content":"Hi"}],"max_tokens":5000,"stream":true,"priority":3}`)
	var r chat.Request
	if err := r.Decode(body); err != nil {
		fmt.Println(err)
		return
	}
	if err := r.CheckRules(&chat.ModelRules{MaxOutputLength: 1024}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, %d tokens at most\n", r.Model, r.Tokens.Max)
	fmt.Printf("%s\n", r.AppendEngineRequest(nil, &chat.EngineFormat{Served: "org/llama-3"}))

	err := r.Decode([]byte(`{"model":"llama","messages":[{"role":"user","content":"Hi"},{"role":"wizard"}]}`))
	var e *apierr.Error
	if errors.As(err, &e) {
		fmt.Println(e.Status, e.Code, e.Param)
		fmt.Println(e.Message)
	}

	// Output:
	// llama, 1024 tokens at most
	// {"stream_options":{"include_usage":true},"model":"org/llama-3","messages":[{"role":"user","content":"Hi"}],"max_tokens":1024,"stream":true,"priority":3}
	// 400 invalid_value messages[1].role
	// messages[1].role must be one of system, developer, user, assistant and tool.
}
