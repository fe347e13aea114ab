package e2e

import (
	"fmt"
	"strings"
	"testing"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestCostlyMembers checks that members that cause a lot of work for an engine are limited at every
// endpoint, and that the error states the limit.
func TestCostlyMembers(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recordingEngine(), Limits: "request_body: 8MiB"})
	list := func(element string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%d":1`, i)
		}
		return "{" + b.String()[1:] + "}"
	}
	word := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	tools := map[string]string{
		"/v1/chat/completions": `{"type":"function","function":{"name":"f"}}`,
		"/v1/messages":         `{"name":"f","input_schema":{"type":"object"}}`,
		"/v1/responses":        `{"type":"function","name":"f"}`,
		"/v1/completions":      `{}`,
	}
	for path, body := range map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}]`,
		"/v1/messages":         `"max_tokens":9,"messages":[{"role":"user","content":"a"}]`,
		"/v1/responses":        `"input":"a"`,
		"/v1/completions":      `"prompt":"a"`,
	} {
		stop := "stop"
		if path == "/v1/messages" {
			stop = "stop_sequences"
		}
		for _, c := range []struct{ member, value, says string }{
			{stop, list(`"a"`, 300_000), "256"},
			{stop, list(word(1000), 100), "64 KiB"},
			{"stop_token_ids", list(`1`, 5000), "1024"},
			{"bad_words", list(`"a"`, 5000), "1024"},
			{"tools", list(tools[path], 1025), "1024"},
			{"top_logprobs", "129", "128"},
			{"prompt_logprobs", "-1", "128"},
			{"best_of", "129", "128"},
			{"n", "129", "128"},
			{"logit_bias", many(5000), "4096"},
			{"guided_regex", word(17 << 10), "16 KiB"},
			{"regex", word(17 << 10), "16 KiB"},
			{"grammar", word(257 << 10), "256 KiB"},
			{"guided_grammar", word(257 << 10), "256 KiB"},
			{"ebnf", word(257 << 10), "256 KiB"},
			{"structured_outputs.regex", word(17 << 10), "16 KiB"},
			{"structured_outputs.grammar", word(257 << 10), "256 KiB"},
		} {
			member := fmt.Sprintf(`"%s":%s`, c.member, c.value)
			if outer, inner, nested := strings.Cut(c.member, "."); nested {
				member = fmt.Sprintf(`"%s":{"%s":%s}`, outer, inner, c.value)
			}
			before := p.Engines[0].Stats().Requests
			e := p.Post(path, `{"model":"sim",`+body+`,`+member+`}`).WantError(400, "invalid_request_error", "invalid_value")
			if orNull(e.Param) != c.member || !strings.Contains(e.Message, c.says) {
				t.Errorf("%s: %s: the parameter is %s: %s", path, c.member, orNull(e.Param), e.Message)
			}
			if p.Engines[0].Stats().Requests != before {
				t.Errorf("%s: %s reached the engine", path, c.member)
			}
		}
	}
}

// TestUnfinishedBodies checks that a key's unfinished bodies use at most half of the memory for
// bodies, so that the bodies of other keys fit. If no other key needs memory, or if there is only
// one body, a key may use all of the memory.
func TestUnfinishedBodies(t *testing.T) {
	t.Parallel()
	other, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	// The body memory is 10 MiB.
	p := start(t, rig.Setup{Keys: `- { id: other, hash: "` + hash + `" }`, Limits: "body_memory: 1%, request_body: 9MiB"})
	begin := func(p *penstock, announced int) *rig.RawConn {
		c := p.Dial()
		_ = c.Send(p.RequestHead("POST", chatPath, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", announced)) + strings.Repeat(" ", announced-1))
		return c
	}
	held := func(p *penstock, mib float64) func() bool {
		return func() bool { return p.Metric("penstock_body_memory_bytes") == mib*(1<<20) }
	}
	for i := range 2 {
		begin(p, 2<<20)
		rig.WaitFor(t, rig.WaitTimeout, "the body has its memory", held(p, float64(2*i+2)))
	}
	if r := begin(p, 2<<20).ReadReply("POST"); r.Status != 503 || !strings.Contains(r.Body, "no_body_memory") {
		t.Errorf("a third body of the key: %d %s", r.Status, r.Body)
	}
	chunked := p.Dial()
	_ = chunked.Send(p.RequestHead("POST", chatPath, "Content-Type: application/json", "Transfer-Encoding: chunked") + "200000\r\n" + strings.Repeat(" ", 2<<20) + "\r\n")
	if r := chunked.ReadReply("POST"); r.Status != 503 {
		t.Errorf("a body without a length: %d %s", r.Status, r.Body)
	}
	large := `{"model":"sim","max_tokens":1,"user":"` + strings.Repeat("x", 4<<20) + `","messages":[{"role":"user","content":"a"}]}`
	mine := p.Key
	p.Key = other
	p.Post(chatPath, large).WantStatus(200)
	whole := begin(p, 6<<20) // more than half, but no other key needs memory
	rig.WaitFor(t, rig.WaitTimeout, "a single body has its memory", held(p, 10))
	whole.Reset()
	p.Key = mine
	rig.WaitFor(t, rig.WaitTimeout, "a single body has given its memory back", held(p, 4))

	lone := start(t, rig.Setup{Limits: "body_memory: 1%"})
	for i := range 5 {
		begin(lone, 2<<20)
		rig.WaitFor(t, rig.WaitTimeout, "the body of a lone key has its memory", held(lone, float64(2*i+2)))
	}
}

// TestAnnouncedBodies checks that a body uses memory only for the bytes received, not for its
// announced length.
func TestAnnouncedBodies(t *testing.T) {
	t.Parallel()
	const announced, part = 8 << 20, 256 << 10
	p := start(t, rig.Setup{Limits: "body_memory: 1%, request_body: 9MiB"}) // the body memory is 10 MiB
	held := func(n int) func() bool {
		return func() bool { return p.Metric("penstock_body_memory_bytes") == float64(n) }
	}
	clients := make([]*rig.RawConn, 8)
	for i := range clients {
		clients[i] = p.Dial()
		_ = clients[i].Send(p.RequestHead("POST", chatPath, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", announced)) + "{")
	}
	rig.WaitFor(t, rig.WaitTimeout, "eight bodies have their first memory", held(8*part))
	_ = clients[0].Send(strings.Repeat(" ", 3*part))
	rig.WaitFor(t, rig.WaitTimeout, "a body that arrives has more", held(7*part+4*part))
	for _, c := range clients[1:] {
		c.Reset()
	}
	_ = clients[0].Send(strings.Repeat(" ", announced-3*part-2) + "}")
	if r := clients[0].ReadReply("POST"); r.Status != 400 || !strings.Contains(r.Body, "missing_parameter") {
		t.Errorf("the whole body: %d %s", r.Status, r.Body)
	}
	rig.WaitFor(t, rig.WaitTimeout, "memory is given back", held(0))
}
