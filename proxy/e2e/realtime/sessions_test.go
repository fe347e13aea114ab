package realtime

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

const completed = "conversation.item.input_audio_transcription.completed"

// TestVLLM checks that the client receives OpenAI's events, item by item, if the engine sends
// vLLM's events.
func TestVLLM(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	c := dial(t, p.Edge, "?intent=transcription&model=whisper-1")
	c.send(`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"whisper-1","language":"en"},"turn_detection":{"type":"server_vad"}}}}}`)
	if e := c.want("session.updated"); e.Session.Audio.Input.Transcription.Model != "whisper-1" || e.Session.Audio.Input.TurnDetection != nil || e.Session.Audio.Input.Format.Rate != 24000 {
		t.Errorf("%s", e.text)
	}
	previous := ""
	for i := range 3 {
		c.sendAudio(1100)
		c.send(`{"type":"input_audio_buffer.commit"}`)
		item, deltas := c.readUntil("input_audio_buffer.committed")
		last, more := c.readUntil(completed)
		if deltas += more; !strings.HasPrefix(deltas, " w1 w2 w3 w4 w5") || deltas != last.Transcript {
			t.Errorf("%d: %q, %s", i, deltas, last.text)
		}
		if item.Previous != previous || last.ItemID != item.ItemID || item.ItemID == "" {
			t.Errorf("%d: after %s: %s %s", i, previous, item.text, last.text)
		}
		if last.Usage.Type != "tokens" || last.Usage.Input == 0 || last.Usage.Output == 0 {
			t.Errorf("%s", last.text)
		}
		previous = item.ItemID
	}
	if n := p.Engines[0].Stats().Running; n != 1 {
		t.Errorf("the session has %d slots", n)
	}
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	waitNoSessions(t, p)
	p.WaitIdle()
	call := p.LastAccessLine()
	if call.Outcome != "ok" || call.Status != 101 || call.Model != "ears" || call.PromptTokens == 0 {
		t.Errorf("%+v", call)
	}
	if got := p.Engines[0].Recorded()[0].Target; got != path {
		t.Errorf("the engine was asked for %s", got)
	}
	if n := p.Metric("penstock_calls_total", `dialect="realtime"`, `outcome="ok"`); n != 1 {
		t.Errorf("%v calls were counted", n)
	}
}

// TestSpeaches checks a session with an engine that speaks OpenAI's protocol and detects speech.
func TestSpeaches(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, speaches(""))
	c := dial(t, p.Edge, "?intent=transcription")
	c.send(`{"type":"transcription_session.update","session":{"input_audio_format":"pcm16","input_audio_transcription":{"model":"ears","language":"de"},"turn_detection":{"type":"server_vad","threshold":0.6}}}`)
	if e := c.want("transcription_session.updated"); e.Session.Audio.Input.Transcription.Language != "de" {
		t.Errorf("%s", e.text)
	}
	c.sendAudio(1000)
	c.want("input_audio_buffer.speech_started")
	c.want("input_audio_buffer.speech_stopped")
	c.want("input_audio_buffer.committed")
	c.want("conversation.item.created")
	if e := c.want(completed); e.Transcript != "item 1" || e.Usage.Seconds == 0 {
		t.Errorf("%s", e.text)
	}
	c.send(`{"type":"input_audio_buffer.commit","event_id":"mine"}`)
	if e := c.wantError("rejected_by_engine"); !strings.Contains(e.Error.Message, "too small") {
		t.Errorf("%s", e.text)
	}
	c.sendAudio(300)
	c.send(`{"type":"input_audio_buffer.clear"}`)
	c.readUntil("input_audio_buffer.cleared")
	c.sendAudio(300)
	c.send(`{"type":"input_audio_buffer.commit"}`)
	if e, _ := c.readUntil(completed); e.Transcript != "item 3" {
		t.Errorf("%s", e.text)
	}
	if got := p.Engines[0].Recorded()[0].Target; got != path+"?intent=transcription&model=sim" {
		t.Errorf("the engine was asked for %s", got)
	}
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	waitNoSessions(t, p)
}

// TestClear checks that, if the engine does not support clearing, the edge drops the text of
// cleared audio.
func TestClear(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	c := dial(t, p.Edge, "?model=ears")
	c.send(`{"type":"input_audio_buffer.clear"}`)
	c.want("input_audio_buffer.cleared")
	c.sendAudio(500)
	c.send(`{"type":"input_audio_buffer.clear"}`)
	c.readUntil("input_audio_buffer.cleared")
	c.sendAudio(300)
	c.send(`{"type":"input_audio_buffer.commit"}`)
	if e, _ := c.readUntil(completed); strings.Contains(e.Transcript, "w4") {
		t.Errorf("%s", e.text)
	}
}

// TestInvalidMessages checks that an invalid message causes an error but does not end the session,
// and that it counts as one of the key's requests.
func TestInvalidMessages(t *testing.T) {
	t.Parallel()
	s := vllm("")
	s.Config = strings.Replace(s.Config, "{ id: tester,", "{ id: tester, limits: { requests_per_minute: 9 },", 1)
	p := rig.Start(t, s)
	c := dial(t, p.Edge, "?model=ears")
	for _, one := range []struct{ message, code, param string }{
		{`{"type":"response.create"}`, "invalid_value", "type"},
		{`{`, "invalid_json", ""},
		{`{"type":"input_audio_buffer.append","audio":"*"}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.append"}`, "invalid_type", "audio"},
		{`{"type":"input_audio_buffer.commit"}`, "input_audio_buffer_commit_empty", ""},
		{`{"type":"session.update","session":{"type":"realtime"}}`, "invalid_value", "session.type"},
		{`{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcmu"}}}}}`, "unsupported_parameter", "session.audio.input.format"},
		{`{"type":"session.update","event_id":"e7","session":{"audio":{"input":{"transcription":{"model":"talk"}}}}}`, "invalid_value", "session.audio.input.transcription.model"},
	} {
		c.send("%s", one.message)
		e := c.wantError(one.code)
		if e.Error.Param != one.param || strings.Contains(one.message, "e7") && e.Error.EventID != "e7" {
			t.Errorf("%s: %s", one.message, e.text)
		}
	}
	c.send(`{"type":"nonsense"}`)
	c.wantError("rate_limited")
	c.wantClosed(websocket.StatusPolicyViolation)
	waitNoSessions(t, p)
}

// TestTokenLimits checks that a session is charged for each completed transcript, and ends once its
// key has exceeded a limit. The last transcript must still arrive, and the next session must be
// refused.
func TestTokenLimits(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"tokens_per_minute": "rate_limited", "tokens_per_day": "quota_exceeded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := vllm("")
			s.Config = strings.Replace(s.Config, "{ id: tester,", "{ id: tester, limits: { "+name+": 25 },", 1)
			p := rig.Start(t, s)
			c := dial(t, p.Edge, "?model=ears")
			tokens := 0
			for tokens <= 25 {
				c.sendAudio(600)
				c.send(`{"type":"input_audio_buffer.commit"}`)
				item, _ := c.readUntil(completed)
				tokens += item.Usage.Input + item.Usage.Output
				if item.Usage.Output == 0 || tokens > 50 {
					t.Fatalf("%d tokens so far: %s", tokens, item.text)
				}
			}
			c.wantError(code)
			c.wantClosed(websocket.StatusTryAgainLater)
			waitNoSessions(t, p)
			if l := p.LastAccessLine(); l.Code != code || l.Outcome != "ok" {
				t.Errorf("got the code %q and the outcome %q in the log, want %q and ok", l.Code, l.Outcome, code)
			}
			if _, res, err := tryDial(t, p.Edge, "?model=ears", nil); err == nil || res == nil || res.StatusCode != 429 {
				t.Errorf("the next session: %v, %+v, want 429", err, res)
			}
			p.WaitIdle()
			if used := p.Metric("penstock_tokens_total"); name == "tokens_per_day" && int(used) != tokens {
				t.Errorf("%v tokens were counted, want %d", used, tokens)
			}
		})
	}
}

// TestRefusedBeforeUpgrade checks that, if the query names the model, refusals have an HTTP status.
func TestRefusedBeforeUpgrade(t *testing.T) {
	t.Parallel()
	s := vllm("")
	s.Config = strings.Replace(s.Config, "audio: 2", "audio: 1", 1)
	p := rig.Start(t, s)
	held := dial(t, p.Edge, "?model=ears")
	for _, one := range []struct {
		query, key string
		status     int
		code       string
	}{
		{"?model=ears", "sk-wrong", 401, "invalid_api_key"},
		{"?model=nothing", p.Key, 404, "model_not_found"},
		{"?model=talk", p.Key, 400, "unsupported_parameter"},
		{"?model=ears&intent=conversation", p.Key, 400, "unsupported_parameter"},
		{"?model=ears", p.Key, 429, "capacity_full"},
	} {
		_, res, err := tryDial(t, p.Edge, one.query, http.Header{"Authorization": {"Bearer " + one.key}})
		if err == nil || res == nil || res.StatusCode != one.status {
			t.Errorf("%s: %v, %+v", one.query, err, res)
			continue
		}
		body := make([]byte, 2000)
		n, _ := res.Body.Read(body)
		if !strings.Contains(string(body[:n]), `"`+one.code+`"`) || res.Header.Get("Sec-WebSocket-Accept") != "" {
			t.Errorf("%s: %v %s", one.query, res.Header, body[:n])
		}
		if one.status == 429 && res.Header.Get("Retry-After") == "" {
			t.Errorf("%v", res.Header)
		}
	}
	for method, status := range map[string]int{"GET": 426, "POST": 405} {
		raw := p.Dial()
		if err := raw.Send(p.RequestHead(method, path, "Content-Length: 0")); err != nil {
			t.Fatal(err)
		}
		if r, err := raw.TryReadReply(method); err != nil || r.Status != status || status == 405 && r.Header.Get("Allow") != "GET" {
			t.Errorf("%s: %v, %+v", method, err, r)
		}
	}
	// After the upgrade, the same refusals are events.
	for _, one := range []struct {
		model, code string
		close       websocket.StatusCode
	}{{"nothing", "model_not_found", 1008}, {"ears", "capacity_full", 1013}} {
		c := dial(t, p.Edge, "?intent=transcription")
		c.send(`{"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"model":%q}}}}}`, one.model)
		c.want("session.updated")
		c.wantError(one.code)
		c.wantClosed(one.close)
	}
	_ = held.ws.Close(websocket.StatusNormalClosure, "")
	waitNoSessions(t, p)
}

// TestBrowserKey checks that a browser may send its key as a subprotocol.
func TestBrowserKey(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	c, res, err := tryDial(t, p.Edge, "?model=ears", http.Header{}, "realtime", "openai-insecure-api-key."+p.Key)
	if err != nil || res.Header.Get("Sec-WebSocket-Protocol") != "realtime" {
		t.Fatalf("%v, %+v", err, res)
	}
	c.want("session.created")
	if _, res, err := tryDial(t, p.Edge, "?model=ears", http.Header{}, "realtime", "openai-insecure-api-key.sk-wrong"); err == nil || res.StatusCode != 401 {
		t.Errorf("%v, %+v", err, res)
	}
}

// TestCatalog checks that the catalog lists the endpoint if an engine supports it, and that a
// strict edge does not serve it.
func TestCatalog(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, vllm(""))
	if r := p.Get("/v1/models/ears"); !strings.Contains(r.Body, `"`+path+`"`) {
		t.Errorf("%s", r.Body)
	}
	none := rig.Start(t, setup("whisper-openai", "", []sim.Options{{}}))
	if r := none.Get("/v1/models/ears"); strings.Contains(r.Body, `"`+path+`"`) {
		t.Errorf("%s", r.Body)
	}
	strict := rig.Start(t, vllm("strict: true\n"))
	if _, res, err := tryDial(t, strict.Edge, "?intent=transcription", nil); err == nil || res == nil || res.StatusCode != 404 {
		t.Errorf("strict, without a model: %v, %+v, want 404", err, res)
	}
	for _, p := range []*rig.LocalEdge{none, strict} {
		if _, res, err := tryDial(t, p.Edge, "?model=ears", nil); err == nil || res == nil || res.StatusCode != 404 {
			t.Errorf("%v, %+v", err, res)
		}
	}
}
