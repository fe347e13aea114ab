package faults

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"penstock/bench/sim"
)

// canary is in every prompt that the harness writes. It must never be seen in a log, a metric or an error.
const canary = "CANARY-7f3a-prompt"

// wantSecret checks that text has nothing of what prompts, keys and faulty engines carry.
func wantSecret(t testing.TB, where, text, key string) {
	t.Helper()
	for _, secret := range []string{canary, key, sim.LeakedHost, sim.LeakedPath, sim.LeakedSecret, sim.ForgedText} {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds %q", where, secret)
		}
	}
}

// way is a manner of asking: a dialect, in one piece or as a stream.
type way struct {
	dialect string // chat, messages, responses, transcription or speech
	path    string
	stream  bool
}

// The ways of audio have one answer each: speech is passed on as it comes, a transcription is read whole.
var (
	transcription = way{"transcription", "/v1/audio/transcriptions", false}
	speech        = way{"speech", "/v1/audio/speech", false}
)

// kind is the member of a model's configuration that says what it is, for what is no chat.
func (w way) kind() string {
	switch w.dialect {
	case "transcription":
		return "kind: audio-transcription"
	case "speech":
		return "kind: audio-speech"
	}
	return ""
}

var (
	chat            = way{"chat", "/v1/chat/completions", false}
	chatStream      = way{"chat", "/v1/chat/completions", true}
	messages        = way{"messages", "/v1/messages", false}
	messagesStream  = way{"messages", "/v1/messages", true}
	responses       = way{"responses", "/v1/responses", false}
	responsesStream = way{"responses", "/v1/responses", true}
)

// allWays are the ways to generate text; plainWays and streamWays are their halves. everyWay are those and audio.
var (
	everyWay   = append(slices.Clone(allWays), transcription, speech)
	allWays    = []way{chat, chatStream, messages, messagesStream, responses, responsesStream}
	plainWays  = []way{chat, messages, responses}
	streamWays = []way{chatStream, messagesStream, responsesStream}
)

// variants are the ways in which variant i of a row is played: the first in all of ways, each further one in two of them, so
// that a row with many variants meets every way and does not start the program for every pair.
func variants(ways []way, i int) []way {
	if i == 0 {
		return ways
	}
	n := len(ways)
	return []way{ways[2*i%n], ways[(2*i+1+i/n)%n]}
}

// String names the way in the names of subtests.
func (w way) String() string {
	if w.stream {
		return w.dialect + "-stream"
	}
	return w.dialect
}

// body is a request for model with prompt as what the user says. control is what the simulator is told, members such as
// `"tokens":5,"delay_ms":20` (bench/sim says which).
func (w way) body(model, prompt, control string) string {
	if control != "" {
		prompt += " [[sim {" + control + "}]]"
	}
	text, _ := json.Marshal(prompt)
	stream := ""
	if w.stream {
		stream = `,"stream":true`
	}
	switch w.dialect {
	case "transcription":
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model +
			"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + prompt +
			"\r\n--" + boundary + "--\r\n"
	case "speech":
		return `{"model":"` + model + `","input":` + string(text) + `}`
	case "messages":
		return `{"model":"` + model + `","max_tokens":1000` + stream + `,"messages":[{"role":"user","content":` + string(text) + `}]}`
	case "responses":
		return `{"model":"` + model + `"` + stream + `,"input":` + string(text) + `}`
	default:
		return `{"model":"` + model + `"` + stream + `,"messages":[{"role":"user","content":` + string(text) + `}]}`
	}
}

// boundary is of the form that a transcription is asked by.
const boundary = "boundary-of-the-test"

// contentType is the header line of a body in this way.
func (w way) contentType() string {
	if w.dialect == "transcription" {
		return "Content-Type: multipart/form-data; boundary=" + boundary
	}
	return "Content-Type: application/json"
}

// prompt is what the user says, with the canary in it.
const prompt = "Say something about " + canary + "."

// ask asks the model "sim" for a good answer, which control may shape, and reads the reply.
func (e *edge) ask(w way, control string) *reply {
	e.t.Helper()
	return e.say(w, prompt, control)
}

// say is ask for a prompt of one's own.
func (e *edge) say(w way, prompt, control string) *reply {
	e.t.Helper()
	return e.post(w.path, w.body("sim", prompt, control), w.contentType())
}

// inWays plays f in each way, with a program and engines of its own, in parallel.
func inWays(t *testing.T, ways []way, s setup, f func(e *edge, w way)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			own := s
			if k := w.kind(); k != "" {
				own.model = strings.TrimPrefix(own.model+", "+k, ", ")
			}
			f(start(t, own), w)
		})
	}
}

// apiError is the contract's error record.
type apiError struct {
	Message  string          `json:"message"`
	Type     string          `json:"type"`
	Code     string          `json:"code"`
	Param    *string         `json:"param"`
	Metadata json.RawMessage `json:"metadata"`
}

// refusal is what a client is told instead of an answer, in the words of chat. Messages says 529 for every engine's failure.
type refusal struct {
	status     int
	kind, code string
	after      string // Retry-After; empty: any that is allowed with the status
}

// The refusals for engines that fail.
var (
	unreachable   = refusal{502, "api_error", "upstream_unreachable", ""}
	badResponse   = refusal{502, "api_error", "upstream_bad_response", ""}
	engineFailed  = refusal{502, "api_error", "upstream_failed", ""}
	engineAuth    = refusal{502, "api_error", "upstream_auth", ""}
	noRoute       = refusal{503, "api_error", "no_healthy_route", ""}
	tooSlow       = refusal{504, "timeout_error", "generation_timeout", ""}
	capacityFull  = refusal{429, "rate_limit_error", "capacity_full", ""}
	rejected      = refusal{400, "invalid_request_error", "rejected_by_engine", ""}
	bodyTooLarge  = refusal{413, "request_too_large", "request_too_large", ""}
	contextTooBig = refusal{400, "invalid_request_error", "context_length_exceeded", ""}
)

// in says the refusal in the words of a dialect.
func (want refusal) in(dialect string) refusal {
	if dialect == "messages" && (want.status == 502 || want.status == 503 || want.status == 504) {
		want.status, want.kind = 529, "overloaded_error"
	}
	return want
}

// wantRefused checks an error answer as a client of the dialect sees it: the status, the record and its shape, a length, one
// request id in both headers, a Retry-After where the status demands one, and no word that should have stayed inside.
func (r *reply) wantRefused(w way, want refusal) *apiError {
	r.t.Helper()
	want = want.in(w.dialect)
	r.wantStatus(want.status)
	if r.err != nil {
		r.t.Errorf("the answer is not whole: %v", r.err)
	}
	var e struct {
		Type      string    `json:"type"`
		Error     *apiError `json:"error"`
		RequestID string    `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error == nil {
		r.t.Fatalf("the error is not the contract's record: %q", r.body)
	}
	if e.Error.Type != want.kind || e.Error.Code != want.code {
		r.t.Errorf("error is %s / %s, want %s / %s: %s", e.Error.Type, e.Error.Code, want.kind, want.code, e.Error.Message)
	}
	id := r.header.Get("X-Request-Id")
	if id == "" || id != r.header.Get("Request-Id") {
		r.t.Errorf("request ids %q and %q", id, r.header.Get("Request-Id"))
	}
	if messages := w.dialect == "messages"; messages && (e.Type != "error" || e.RequestID != id) || !messages && e.Type != "" {
		r.t.Errorf("the shape is another dialect's: %s", r.body)
	}
	if e.Error.Message == "" {
		r.t.Error("the error has no message")
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		r.t.Errorf("Content-Type %q", ct)
	}
	if r.header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		r.t.Errorf("Content-Length %q for %d bytes", r.header.Get("Content-Length"), len(r.body))
	}
	r.wantRetryAfter(want)
	wantSecret(r.t, "the answer", r.body, "127.0.0.1:")
	return e.Error
}

func (r *reply) wantRetryAfter(want refusal) {
	r.t.Helper()
	after := r.header.Get("Retry-After")
	if want.after != "" && after != want.after {
		r.t.Errorf("Retry-After is %q, want %q", after, want.after)
	}
	switch n, err := strconv.Atoi(after); want.status {
	case 429, 503, 504, 529:
		if err != nil || n < 1 || n > 60 {
			r.t.Errorf("Retry-After is %q, want an integer from 1 to 60", after)
		}
	default:
		if after != "" {
			r.t.Errorf("Retry-After %q on a %d", after, want.status)
		}
	}
}

// event is one event of a stream.
type event struct{ name, data string }

// events reads a whole stream.
func (r *reply) events() []event {
	r.t.Helper()
	if ct := r.header.Get("Content-Type"); ct != "text/event-stream" {
		r.t.Fatalf("Content-Type %q, want a stream\n%.2000s", ct, r.body)
	}
	if r.err != nil {
		r.t.Errorf("the body did not end properly: %v", r.err)
	}
	return parseEvents(r.body)
}

// parseEvents is deliberately another parser than the edge's: blank lines end events, comments are dropped.
func parseEvents(text string) []event {
	var out []event
	for block := range strings.SplitSeq(text, "\n\n") {
		var e event
		for line := range strings.SplitSeq(block, "\n") {
			if v, ok := strings.CutPrefix(line, "event: "); ok {
				e.name = v
			}
			if v, ok := strings.CutPrefix(line, "data: "); ok {
				e.data += v
			}
		}
		if e.data != "" {
			out = append(out, e)
		}
	}
	return out
}

// text is the visible text of an answer that ended well; it fails the test when the answer did not.
func (r *reply) text(w way) string {
	r.t.Helper()
	r.wantStatus(200)
	if !w.stream {
		return r.plainText(w)
	}
	text, whole := streamText(r.t, w, r.events())
	if !whole {
		r.t.Errorf("the stream does not end as a whole one does: …%s", r.body[max(0, len(r.body)-600):])
	}
	return text
}

func (r *reply) plainText(w way) string {
	r.t.Helper()
	if w.dialect == "speech" {
		if r.err != nil || !strings.HasPrefix(r.body, "RIFF") || r.header.Get("Content-Type") != "audio/wav" {
			r.t.Errorf("%v: %.40q is no audio, but %s", r.err, r.body, r.header.Get("Content-Type"))
		}
		return r.body
	}
	var a struct {
		Text    json.RawMessage // a string in a transcription, an object in Responses
		Choices []struct{ Message struct{ Content string } }
		Content []struct{ Text string }
		Output  []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(r.body), &a); err != nil {
		r.t.Fatalf("the answer is not JSON: %v\n%.2000s", err, r.body)
	}
	var b strings.Builder
	if len(a.Text) > 0 && a.Text[0] == '"' {
		b.Write(a.Text)
	}
	for _, c := range a.Choices {
		b.WriteString(c.Message.Content)
	}
	for _, c := range a.Content {
		b.WriteString(c.Text)
	}
	for _, o := range a.Output {
		for _, c := range o.Content {
			b.WriteString(c.Text)
		}
	}
	if b.Len() == 0 {
		r.t.Errorf("no text in a %s answer: %.600s", w.dialect, r.body)
	}
	return b.String()
}

// streamText puts the visible text of a stream together and says whether the stream ended as a whole one does.
func streamText(t testing.TB, w way, events []event) (text string, whole bool) {
	t.Helper()
	var b strings.Builder
	finished := false
	for _, ev := range events {
		if ev.data == "[DONE]" {
			whole = finished
			continue
		}
		var c struct {
			Type    string
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason *string `json:"finish_reason"`
			}
			Delta json.RawMessage
		}
		if err := json.Unmarshal([]byte(ev.data), &c); err != nil {
			t.Fatalf("an event is not JSON: %q", ev.data)
		}
		for _, ch := range c.Choices {
			b.WriteString(ch.Delta.Content)
			finished = finished || ch.FinishReason != nil
		}
		switch c.Type {
		case "content_block_delta":
			var d struct{ Text string }
			_ = json.Unmarshal(c.Delta, &d)
			b.WriteString(d.Text)
		case "message_stop":
			whole = w.dialect == "messages"
		case "response.output_text.delta":
			var d string
			_ = json.Unmarshal(c.Delta, &d)
			b.WriteString(d)
		case "response.completed":
			finished = true
		}
	}
	return b.String(), whole
}

// wantBroken checks a stream that ended badly after its first bytes: what came is there, the dialect's error is last, with
// code in the words of chat, nothing says that the answer is whole, and the body itself ended properly.
func (r *reply) wantBroken(w way, code string) {
	r.t.Helper()
	r.wantStatus(200)
	events := r.events()
	if text, whole := streamText(r.t, w, slices.DeleteFunc(slices.Clone(events), isError)); text == "" || whole {
		r.t.Errorf("text %q came, whole: %v\n%.2000s", text, whole, r.body)
	}
	wantSecret(r.t, "the stream", r.body, "127.0.0.1:")
	tail := events
	if w.dialect == "responses" { // error, response.failed and the end mark of the SSE framing
		tail = events[max(0, len(events)-3):]
		if len(tail) < 3 || tail[0].name != "error" || tail[1].name != "response.failed" || tail[2].data != "[DONE]" {
			r.t.Fatalf("the stream ends with %v", tail)
		}
		code = responsesCode(code)
		if !strings.Contains(tail[1].data, `"error":{"code":"`+code+`"`) || !strings.Contains(tail[1].data, `"status":"failed"`) {
			r.t.Errorf("response.failed says %s, want %s", tail[1].data, code)
		}
		tail = tail[:1]
	}
	last := tail[len(tail)-1]
	var e struct {
		Type  string
		Error *apiError
	}
	if err := json.Unmarshal([]byte(last.data), &e); err != nil || e.Error == nil || e.Error.Message == "" {
		r.t.Fatalf("the last event is no error: %q", last.data)
	}
	if e.Error.Code != code {
		r.t.Errorf("code %q, want %q", e.Error.Code, code)
	}
	if w.dialect == "messages" && (last.name != "error" || e.Type != "error" || (e.Error.Type != "overloaded_error") != (code == "capacity_full")) {
		r.t.Errorf("the error event is not the dialect's: %v", last)
	}
	for _, ev := range events {
		if w.dialect == "chat" && ev.data == "[DONE]" || strings.Contains(ev.data, `"finish_reason":"stop"`) || strings.Contains(ev.data, `"message_stop"`) {
			r.t.Errorf("a broken stream says it is whole: %q", ev.data)
		}
	}
}

// isError reports whether an event says that a stream has failed.
func isError(ev event) bool {
	return ev.name == "error" || ev.name == "response.failed" || strings.HasPrefix(ev.data, `{"error":`)
}

// responsesCode is what Responses calls a failure inside a stream: its set of codes is closed.
func responsesCode(code string) string {
	switch code {
	case "capacity_full", "rate_limited":
		return "rate_limit_exceeded"
	case "rejected_by_engine":
		return "invalid_prompt"
	}
	return "server_error"
}
