package jsonx_test

import (
	"fmt"

	"penstock/translate/jsonx"
)

// requestNames lists the members that determine how this program handles a request.
var requestNames = jsonx.NewNameIndex("model", "messages", "stream")

func Example() {
	body := []byte(`{"model": "llama", "messages": [{"role": "user", "content": "hi"}], "x-engine": [1, 2.50]}`)

	var doc jsonx.Doc // reuse the Doc for the next body
	if err := doc.Parse(body, jsonx.Options{}); err != nil {
		fmt.Println(err)
		return
	}
	var out [3]jsonx.Value
	if err := requestNames.Fields(doc.Root(), out[:]); err != nil {
		fmt.Println(err)
		return
	}
	model, messages, stream := out[0], out[1], out[2]
	for it := messages.Iter(); it.Next(); {
		fmt.Printf("message %d: %s\n", it.Index(), it.Value().Get("content").AppendText(nil))
	}

	var edits jsonx.Edits // reuse the Edits for the next body
	edits.Set(model, []byte(`"meta-llama/Llama-3.3-70B-Instruct"`))
	if !stream.Exists() {
		edits.Add(doc.Root(), []byte(`"stream":false`))
	}
	fmt.Println(string(edits.Append(nil, body)))

	fmt.Println(doc.Parse([]byte(`{"model": "a", "mod\u0065l": "b"}`), jsonx.Options{}))
	fmt.Println(requestNames.Fields(doc.Root(), out[:]))
	// Output:
	// message 0: hi
	// {"model": "meta-llama/Llama-3.3-70B-Instruct", "messages": [{"role": "user", "content": "hi"}], "x-engine": [1, 2.50],"stream":false}
	// <nil>
	// read JSON object: member "model" is given twice
}

func ExampleValue_Fields() {
	var doc jsonx.Doc
	_ = doc.Parse([]byte(`{"Role": "user"}`), jsonx.Options{})
	var out [2]jsonx.Value
	fmt.Println(doc.Root().Fields([]string{"role", "content"}, out[:]))
	// Output:
	// read JSON object: member "role" is spelt in another case
}

func ExampleAppendString() {
	fmt.Println(string(jsonx.AppendString(nil, []byte("a \"quoted\"\n<b> \xff"))))
	// Output:
	// "a \"quoted\"\n<b> �"
}
