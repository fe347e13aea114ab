package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config"
	"penstock/proxy/e2e/rig"
	"penstock/proxy/operate/status"
	"penstock/proxy/telemetry/observe"
)

// These tests check zero retention. They send a word to every endpoint, under every fault, at every
// log level and during a reload. Afterwards, no output of the edge may contain the word, except
// messages to the client and the engine. (TestPanicIsAnInternalError in package proxy checks that a
// panic's value is not shown.)

// retentionWord is the word. No other test may use it, because the test searches the temporary folder
// for it.
const retentionWord = "ZQRETENTIONCANARYQZ"

// retainedCalls returns calls to every endpoint. They contain the word wherever a client can put
// text. {} stands for the word.
func retainedCalls() (out []struct{ path, body string }) {
	add := func(path, body string) {
		out = append(out, struct{ path, body string }{path, strings.ReplaceAll(body, "{}", retentionWord)})
	}
	for _, stream := range []string{"false", "true"} {
		add(chatPath, `{"model":"talk","stream":`+stream+`,"user":"{}","stop":"{}","metadata":{"{}":"{}"},"messages":[{"role":"system","content":"{}"},{"role":"user","name":"n","content":[{"type":"text","text":"{}"}]},`+
			`{"role":"assistant","tool_calls":[{"id":"{}","type":"function","function":{"name":"f","arguments":"{\"a\":\"{}\"}"}}]},{"role":"tool","tool_call_id":"{}","content":"{}"}],"tools":[{"type":"function","function":{"name":"f","description":"{}","parameters":{"type":"object","properties":{"{}":{"type":"string"}}}}}]}`)
		add(chatPath, `{"model":"talk","stream":`+stream+`,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/{}.png"}}]}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"title":"{}"}}}}`)
		add("/v1/messages", `{"model":"talk","stream":`+stream+`,"max_tokens":20,"system":"{}","metadata":{"user_id":"{}"},"stop_sequences":["{}"],"messages":[{"role":"user","content":[{"type":"text","text":"{}"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"{}"}}]}]}`)
		add("/v1/messages", `{"model":"talk","stream":`+stream+`,"max_tokens":20,"messages":[{"role":"user","content":"{}"}]}`)
		add("/v1/responses", `{"model":"talk","stream":`+stream+`,"instructions":"{}","metadata":{"k":"{}"},"input":[{"role":"user","content":[{"type":"input_text","text":"{}"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"{}"}]}`)
		add("/v1/responses", `{"model":"talk","stream":`+stream+`,"input":[{"role":"user","content":"{}"},{"type":"custom_tool_call","call_id":"{}","name":"{}","input":"{}"},{"type":"custom_tool_call_output","call_id":"{}","output":"{}"},{"type":"function_call","call_id":"d","name":"{}","namespace":"{}","arguments":"{}"}],"tools":[{"type":"custom","name":"{}","description":"{}","format":{"type":"grammar","syntax":"{}","definition":"{}"}},{"type":"namespace","name":"{}","description":"{}","tools":[{"type":"function","name":"{}"}]},{"type":"{}"}]}`)
		add("/v1/messages", `{"model":"talk","stream":`+stream+`,"max_tokens":20,"messages":[{"role":"user","content":"{}"}],"tools":[{"type":"bash_{}","name":"{}"},{"type":"{}","name":"{}"}]}`)
		add(chatPath, `{"model":"talk","stream":`+stream+`,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"a","reasoning":"{}"},{"role":"assistant","content":"b","reasoning_content":"{}","reasoning":"{}"}]}`)
		add("/v1/messages", `{"model":"talk","stream":`+stream+`,"max_tokens":20,"thinking":{"type":"adaptive","display":"omitted"},"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"{}","signature":"{}"},`+
			`{"type":"thinking","thinking":"","signature":"pst1{}"},{"type":"redacted_thinking","data":"{}"},{"type":"text","text":"a"}]},{"role":"user","content":"b"}]}`)
		add("/v1/responses", `{"model":"talk","stream":`+stream+`,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"high"},"input":[{"role":"user","content":"Hi"},{"type":"reasoning","id":"{}","summary":[{"type":"summary_text","text":"{}"}],"encrypted_content":"pst1{}"},`+
			`{"type":"reasoning","summary":[],"encrypted_content":"{}"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"{}"}]},{"role":"assistant","content":"a"}]}`)
		add("/v1/completions", `{"model":"talk","stream":`+stream+`,"prompt":"{}","suffix":"{}"}`)
	}
	add("/v1/messages/count_tokens", `{"model":"talk","messages":[{"role":"user","content":"{}"}]}`)
	for _, path := range []string{"/v1/responses", "/v1/responses/compact", "/v1/responses/input_tokens"} {
		add(path, `{"model":"talk","input":[{"role":"user","content":"{}"},{"type":"compaction","encrypted_content":"pst1{}"}]}`)
		add(path, `{"model":"talk","instructions":"{}","input":[{"role":"user","content":"{}"},{"type":"compaction_trigger"}]}`)
	}
	add("/v1/embeddings", `{"model":"vectors","input":["{}","{}"],"user":"{}"}`)
	add("/v1/rerank", `{"model":"ranks","query":"{}","documents":["{}"]}`)
	for path, body := range map[string]string{
		"/v1/score": `"text_1":"{}","text_2":["{}"]`, "/v1/classify": `"input":["{}"]`, "/v1/pooling": `"input":"{}","encoding_format":"{}"`,
		"/tokenize": `"prompt":"{}"`, "/detokenize": `"tokens":"{}"`, "/v1/moderations": `"input":"{}"`,
	} {
		for _, model := range []string{"ranks", "vectors", "talk"} {
			add(path, `{"model":"`+model+`",`+body+`}`)
		}
	}
	add(speech, `{"model":"voice","input":"{}","voice":"alloy","instructions":"{}"}`)
	add("/v1/images/generations", `{"model":"{}","prompt":"{}"}`)
	// These requests contain mistakes whose errors might quote the request.
	add(chatPath, `{"model":"{}","messages":[{"role":"user","content":"{}"}]}`)
	add(chatPath, `{"model":"talk","messages":[{"role":"{}","content":"{}"}],"{}":1}`)
	add(chatPath, `{"model":"talk","messages":"{}","temperature":"{}"}`)
	add(chatPath, `{"model":"talk","{}":{}`)
	add("/v1/messages", `{"model":"talk","max_tokens":"{}","messages":[{"role":"{}"}]}`)
	add("/v1/responses", `{"model":"talk","input":[{"type":"{}"}],"previous_response_id":"{}"}`)
	add("/v1/embeddings", `{"model":"vectors","input":{"{}":1}}`)
	add("/v1/{}", `{"{}":"{}"}`)
	return out
}

func TestZeroRetention(t *testing.T) {
	t.Parallel()
	before := time.Now().Add(-time.Second)
	r := startReceiver(t)
	var console rig.Buffer
	for _, format := range []string{config.LogFormatJSON, config.LogFormatConsole} {
		s := rig.Setup{Engines: []sim.Options{{}, {}}, Config: strings.Replace(audioConfig, "upstreams: [{", "seal: { keys: [\"a-key-that-seals-"+retentionWord+"\"] }\nend_users: { secret: a-secret-of-all-end-users-"+retentionWord+", header: X-Canary-User }\ntracing: { otlp: "+r.url+" }\nlog: { format: "+format+", level: debug, debug_headers: true }\nadmin: { token: "+rig.AdminToken+" }\n"+
			"stream: { commit_after: 300ms, keepalive: 100ms }\nupstreams: [{ name: up-1, url: \"{{up-1}}\", engine: sim, probe: { interval: 100ms } }, {", 1)}
		s.Config = strings.ReplaceAll(s.Config, "drain: 5s,", "drain: 5s, first_event: 1500ms, answer: 1500ms, idle: 1500ms,")
		s.Config = strings.ReplaceAll(s.Config, "id: talk, deployments: [{ upstream: up-0", "id: talk, deployments: [{ upstream: up-1, served: sim }, { upstream: up-0")
		if format == config.LogFormatConsole {
			log, err := observe.NewLogger(config.Log{Level: "debug", Format: format}, &console)
			if err != nil {
				t.Fatal(err)
			}
			s.Log = log
		}
		p := start(t, s)
		see := p.callWithFaults(t)
		p.WaitIdle()
		for what, path := range map[string]string{"the metrics": "/metrics", "the page": "/", "the status": "/status", "the account": "/-/usage", "that of end users": "/-/usage?by=user"} {
			res := p.adminDo("GET", path, "", rig.AdminToken)
			text, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != 200 || len(text) < 100 {
				t.Fatalf("%s = %s, %v; want 200 with 100 bytes or more", path, res.Status, err)
			}
			wantNothingKept(t, what, string(text))
			if path == "/status" {
				wantRows(t, text)
			}
		}
		// the client may receive its own word
		see = strings.ReplaceAll(see, `The model \"`+retentionWord+`\" does not exist`, "")
		wantNothingKept(t, "an answer that is an error, or a header", see)
		p.End()
		wantNothingKept(t, "the log", p.Log.String())
	}
	wantNothingKept(t, "the log of a terminal", console.String())
	if !strings.Contains(console.String(), "→") {
		t.Error("the log of a terminal has no calls")
	}
	r.mu.Lock()
	spans := len(r.spans)
	wantNothingKept(t, "a trace", r.text.String())
	r.mu.Unlock()
	if spans < 100 {
		t.Errorf("only %d spans", spans)
	}
	searchFiles(t, os.TempDir(), before)
	searchFiles(t, ".", before)
}

// callWithFaults makes every call under every fault. It returns all answers except successful ones.
func (p *penstock) callWithFaults(t *testing.T) (shown string) {
	var b strings.Builder
	see := func(r *rig.Reply) {
		if r.Status != 200 {
			b.WriteString(r.Body)
		}
		for name, values := range r.Header {
			if name == "X-Client-Request-Id" { // the edge returns the client's id to the client
				continue
			}
			b.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
	}
	all := retainedCalls()
	for i, fault := range []string{"", "status=400;message=no", "status=500", "status=503", "reset-before", "invalid-json", "error-in-stream", "reset-after", "blackhole", "garbage-head"} {
		for _, e := range p.Engines {
			e.SetFault(sim.Fault{Spec: fault})
		}
		calls := all
		if fault == "blackhole" { // each call lasts until its timeout
			calls = all[:4]
		}
		for _, c := range calls {
			see(p.Post(c.path, c.body, "User-Agent: "+retentionWord, "X-Request-Id: "+retentionWord, "X-Client-Request-Id: "+retentionWord, "Cookie: c="+retentionWord, "Referer: http://"+retentionWord, "Traceparent: "+retentionWord, "X-"+retentionWord+": "+retentionWord, "X-Canary-User: "+retentionWord))
		}
		see(p.upload(transcriptions, text("model", "ears"), text("prompt", retentionWord), text("language", retentionWord), formPart{"file", retentionWord + ".wav", retentionWord}))
		if i%3 == 0 {
			res := p.adminDo(http.MethodPost, "/-/reload", "", rig.AdminToken)
			res.Body.Close()
		}
	}
	for _, e := range p.Engines {
		e.SetFault()
	}
	see(p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+retentionWord))
	see(p.Post(chatPath+"?api_key="+retentionWord, p.ChatRequest("")))
	see(p.Do("GET", "/v1/models/"+retentionWord, ""))
	see(p.Do("GET", "/"+retentionWord+"?"+retentionWord+"="+retentionWord, ""))
	res := p.adminDo("GET", "/"+retentionWord, "", rig.AdminToken)
	res.Body.Close()
	res = p.adminDo("GET", "/status", "", retentionWord)
	res.Body.Close()
	res = p.adminDo(http.MethodPost, "/-/mode", "mode="+retentionWord+"&upstream="+retentionWord, rig.AdminToken)
	text, _ := io.ReadAll(res.Body)
	b.Write(text)
	rig.WaitFor(t, rig.WaitTimeout, "the engines are used again", func() bool { return p.Post(chatPath, rig.ChatBody("talk", "")).Status == 200 })
	// The refusals since then may have displaced these calls from the status page, so send them
	// again.
	see(p.Post(chatPath, rig.ChatBody(retentionWord, "")))
	// The client leaves before the end.
	s := p.OpenStream(chatPath, strings.Replace(rig.ChatBody("talk", endlessStream), rig.Canary, retentionWord, 1))
	s.Next()
	s.Disconnect()
	return b.String()
}

func wantNothingKept(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.Index(strings.ToUpper(text), retentionWord); i >= 0 {
		t.Errorf("%s holds a client's word: …%s…", what, text[max(0, i-200):min(len(text), i+100)])
	}
}

// wantRows checks that the status lists the calls, because the search would also pass if the table
// were empty.
func wantRows(t *testing.T, text []byte) {
	t.Helper()
	for _, word := range []string{`"state": "` + status.CallDone, `"state": "` + status.CallFailed, `"code": "model_not_found"`, `"generated_tokens"`} {
		if !bytes.Contains(text, []byte(word)) {
			t.Errorf("the status does not show %s: the test has not reached what it is about", word)
		}
	}
}

// searchFiles searches the files in a folder that were written since the given time.
func searchFiles(t *testing.T, folder string, since time.Time) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(since) || strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), ".test") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err == nil && bytes.Contains(text, []byte(retentionWord)) {
			t.Errorf("the file %s holds a client's word", e.Name())
		}
	}
}
