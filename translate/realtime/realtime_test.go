package realtime

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"penstock/translate/engineerror"
	"penstock/translate/jsonx"
)

// sendFromClient passes a client's message to talk and returns the messages for the engine and for
// the client.
func sendFromClient(t *testing.T, talk *SessionState, message string) (engine, client []string) {
	t.Helper()
	var doc jsonx.Doc
	m, refused := ParseClient(&doc, []byte(message))
	var toEngine, toClient []byte
	if refused == nil {
		switch m.Kind {
		case KindUnknown:
		case KindUpdate:
			toClient, toEngine, refused = talk.UpdateSettings(&m)
		case KindAppend:
			if refused = CheckBase64(m.Audio); refused == nil {
				toEngine, _ = talk.PrepareAppend()
			}
		case KindCommit:
			toEngine, toClient, refused = talk.CommitAudio()
		case KindClear:
			toEngine, toClient = talk.ClearAudio()
		}
	}
	if refused != nil {
		toClient = talk.ErrorEvent(refused, &m)
	}
	if m.Kind == KindAppend && refused == nil {
		if toEngine != nil {
			engine = append(engine, string(toEngine))
		}
		if err := talk.AudioConverter().SendPieces(m.Audio, func(p []byte) error {
			engine = append(engine, string(p))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return engine, nil
	}
	if toEngine != nil {
		engine = append(engine, string(toEngine))
	}
	if toClient != nil {
		client = append(client, string(toClient))
	}
	return engine, client
}

func sendFromEngine(t *testing.T, talk *SessionState, message string) (client []string) {
	t.Helper()
	var doc jsonx.Doc
	h, err := talk.TranslateEngineEvent(&doc, []byte(message), func(e *engineerror.Error) {
		e.Message = strings.ReplaceAll(e.Message, "served", "ears")
	})
	if err != nil {
		return []string{"!garbage"}
	}
	for _, c := range h.Client {
		client = append(client, string(c))
	}
	return client
}

// TestEvents checks the translation step by step. A message from a client (">") or an engine ("<")
// is followed by the expected messages for the engine ("e ") and for the client ("c ").
func TestEvents(t *testing.T) {
	t.Parallel()
	const session = `{"id":"sess_S","object":"realtime.transcription_session","type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":RATE},"noise_reduction":null,"transcription":{"model":"ears","language":LANGUAGE},"turn_detection":TURNS}},"include":null,"input_audio_format":"pcm16","input_audio_transcription":{"model":"ears","language":LANGUAGE},"turn_detection":TURNS}`
	object := func(rate, language, turns string) string {
		return strings.NewReplacer("RATE", rate, "LANGUAGE", language, "TURNS", turns).Replace(session)
	}
	for name, one := range map[string]struct {
		form  EngineProtocol
		meets string
		steps []string
	}{
		"vllm": {ProtocolVLLM, `{"type":"session.update","model":"served"}`, []string{
			`> {"type":"session.update","session":{"type":"transcription","audio":{"input":{"transcription":{"model":"ears","language":"en"},"turn_detection":{"type":"semantic_vad"}}}}}`,
			`c {"type":"session.updated","event_id":"event_S1","session":` + object("24000", `"en"`, "null") + `}`,
			`> {"type":"input_audio_buffer.commit","event_id":"e1"}`,
			`c {"type":"error","event_id":"event_S2","error":{"message":"The input audio buffer is empty: append audio before a commit.","type":"invalid_request_error","code":"input_audio_buffer_commit_empty","param":null,"event_id":"e1"}}`,
			`> {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`e {"type":"input_audio_buffer.commit","final":false}`,
			`< {"type":"transcription.delta","delta":"One \"two\""}`,
			`c {"type":"conversation.item.input_audio_transcription.delta","event_id":"event_S3","item_id":"item_S1","content_index":0,"delta":"One \"two\""}`,
			`< {"type":"transcription.delta","delta":""}`,
			`> {"type":"input_audio_buffer.commit"}`,
			`e {"type":"input_audio_buffer.commit","final":true}`,
			`c {"type":"input_audio_buffer.committed","event_id":"event_S4","previous_item_id":null,"item_id":"item_S1"}`,
			`< {"type":"transcription.done","text":"One \"two\"","usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`,
			`c {"type":"conversation.item.input_audio_transcription.completed","event_id":"event_S5","item_id":"item_S1","content_index":0,"transcript":"One \"two\"","usage":{"type":"tokens","input_tokens":7,"output_tokens":2,"total_tokens":9}}`,
			// The engine ends an item before the client commits it.
			`> {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`e {"type":"input_audio_buffer.commit","final":false}`,
			`< {"type":"transcription.done","text":"x"}`,
			`c {"type":"input_audio_buffer.committed","event_id":"event_S6","previous_item_id":"item_S1","item_id":"item_S2"}`,
			`c {"type":"conversation.item.input_audio_transcription.completed","event_id":"event_S7","item_id":"item_S2","content_index":0,"transcript":"x","usage":{"type":"tokens","input_tokens":0,"output_tokens":0,"total_tokens":0}}`,
			// The engine reports an error during an item.
			`> {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`e {"type":"input_audio_buffer.commit","final":false}`,
			`< {"type":"error","error":"CUDA error at 10.0.0.1","code":"processing_error"}`,
			`c {"type":"input_audio_buffer.committed","event_id":"event_S8","previous_item_id":"item_S2","item_id":"item_S3"}`,
			`c {"type":"conversation.item.input_audio_transcription.failed","event_id":"event_S9","item_id":"item_S3","content_index":0,"error":{"message":"The engine failed to transcribe the audio.","type":"api_error","code":"upstream_failed","param":null}}`,
			// The edge drops the text of cleared audio.
			`> {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`e {"type":"input_audio_buffer.commit","final":false}`,
			`> {"type":"input_audio_buffer.clear"}`,
			`e {"type":"input_audio_buffer.commit","final":true}`,
			`c {"type":"input_audio_buffer.cleared","event_id":"event_S10"}`,
			`< {"type":"transcription.delta","delta":"secret"}`,
			`< {"type":"transcription.done","text":"secret"}`,
			`< {"type":"error","error":"Invalid audio data","code":"invalid_audio"}`,
			`c {"type":"error","event_id":"event_S11","error":{"message":"Invalid audio data","type":"invalid_request_error","code":"rejected_by_engine","param":null}}`,
			`< {"type":"something.new","delta":1}`,
			`< {"type":"transcription.delta"}`, `c !garbage`,
			`< [1]`, `c !garbage`,
			`< x`, `c !garbage`,
		}},
		"openai": {ProtocolOpenAI, `{"type":"session.update","session":{"input_audio_transcription":{"model":"served"}}}`, []string{
			`> {"type":"transcription_session.update","session":{"input_audio_format":"pcm16","input_audio_transcription":{"model":"ears","language":"de"},"turn_detection":{"type":"server_vad","threshold":0.4,"prefix_padding_ms":100}}}`,
			`e {"type":"session.update","session":{"input_audio_transcription":{"model":"served","language":"de"},"turn_detection":{"type":"server_vad","threshold":0.4,"silence_duration_ms":500,"prefix_padding_ms":0,"create_response":false}}}`,
			`c {"type":"transcription_session.updated","event_id":"event_S1","session":` + object("24000", `"de"`, `{"type":"server_vad","threshold":0.4}`) + `}`,
			`< {"type":"error","error":{"type":"invalid_request_error","message":"Specifying session.turn_detection.prefix_padding_ms is not supported."}}`,
			`< {"type":"session.updated","session":{"instructions":"internal"}}`,
			`> {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`e {"type":"input_audio_buffer.append","audio":"AAAA"}`,
			`< {"type":"input_audio_buffer.speech_started","event_id":"x","item_id":"i","audio_start_ms":5}`,
			`c {"type":"input_audio_buffer.speech_started","event_id":"x","item_id":"i","audio_start_ms":5}`,
			`> {"type":"input_audio_buffer.commit"}`,
			`e {"type":"input_audio_buffer.commit"}`,
			`> {"type":"input_audio_buffer.clear"}`,
			`e {"type":"input_audio_buffer.clear"}`,
			`< {"type":"conversation.item.input_audio_transcription.completed","transcript":"x"}`,
			`c {"type":"conversation.item.input_audio_transcription.completed","transcript":"x"}`,
			`< {"type":"response.created","response":{}}`,
			`< {"type":"error","error":{"type":"invalid_request_error","message":"no served"}}`,
			`c {"type":"error","event_id":"event_S2","error":{"message":"no ears","type":"invalid_request_error","code":"rejected_by_engine","param":null}}`,
			`< {"type":"error","error":{"type":"server_error","message":"at /srv/app.py"}}`,
			`c {"type":"error","event_id":"event_S3","error":{"message":"The engine failed to transcribe the audio.","type":"api_error","code":"upstream_failed","param":null}}`,
			`< {"type":"conversation.item.input_audio_transcription.failed","item_id":"i7","error":{"message":"at /srv/app.py"}}`,
			`c {"type":"conversation.item.input_audio_transcription.failed","event_id":"event_S4","item_id":"i7","content_index":0,"error":{"message":"The engine failed to transcribe the audio.","type":"api_error","code":"upstream_failed","param":null}}`,
			`> {"type":"session.update","session":{"turn_detection":{"type":"server_vad","threshold":0.` + strings.Repeat("5", 100) + `}}}`,
			// A long number is dropped.
			`e {"type":"session.update","session":{"input_audio_transcription":{"model":"served","language":"de"}}}`,
			`c {"type":"session.updated","event_id":"event_S5","session":{"id":"sess_S","object":"realtime.transcription_session","type":"transcription","audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"noise_reduction":null,"transcription":{"model":"ears","language":"de"},"turn_detection":{"type":"server_vad"}}},"include":null,"input_audio_format":"pcm16","input_audio_transcription":{"model":"ears","language":"de"},"turn_detection":{"type":"server_vad"}}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			talk := NewSessionState("S")
			talk.SetModel("ears")
			first, refused := talk.ConnectEngine(one.form, "served")
			if refused != nil || len(first) != 1 || string(first[0]) != one.meets {
				t.Fatalf("%s, %v", first, refused)
			}
			for i := 0; i < len(one.steps); {
				step := one.steps[i]
				var want, got []string
				for i++; i < len(one.steps) && (one.steps[i][0] == 'e' || one.steps[i][0] == 'c'); i++ {
					want = append(want, one.steps[i])
				}
				if step[0] == '>' {
					engine, client := sendFromClient(t, talk, step[2:])
					for _, m := range engine {
						if one.form == ProtocolVLLM && strings.HasPrefix(m, `{"type":"input_audio_buffer.append"`) {
							continue // TestResampling checks the audio
						}
						got = append(got, "e "+m)
					}
					for _, m := range client {
						got = append(got, "c "+m)
					}
				} else {
					for _, m := range sendFromEngine(t, talk, step[2:]) {
						got = append(got, "c "+m)
					}
				}
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%s\ngot\n%s\nwant\n%s", step, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				for _, m := range got {
					if m[2] != '!' && !json.Valid([]byte(m[2:])) {
						t.Errorf("no JSON: %s", m)
					}
				}
			}
		})
	}
}

// TestWaits checks the results of MustHoldAudio and HasPendingText in each state of a session.
func TestWaits(t *testing.T) {
	t.Parallel()
	talk := NewSessionState("S")
	_, _ = talk.ConnectEngine(ProtocolVLLM, "served")
	sendFromClient(t, talk, `{"type":"input_audio_buffer.append","audio":"AAAA"}`)
	if talk.MustHoldAudio() || talk.HasPendingText() {
		t.Error("waits although the item is open")
	}
	sendFromClient(t, talk, `{"type":"input_audio_buffer.commit"}`)
	if !talk.MustHoldAudio() || !talk.HasPendingText() {
		t.Error("does not wait for the text")
	}
	sendFromEngine(t, talk, `{"type":"transcription.done","text":""}`)
	if talk.MustHoldAudio() || talk.HasPendingText() {
		t.Error("waits although the text is there")
	}
	other := NewSessionState("S")
	_, _ = other.ConnectEngine(ProtocolOpenAI, "served")
	sendFromEngine(t, other, `{"type":"input_audio_buffer.committed","item_id":"i"}`)
	if other.MustHoldAudio() || !other.HasPendingText() {
		t.Error("an engine with OpenAI's events owes a transcript")
	}
}

// tone returns a second of a tone at 24 kHz, in base64.
func tone(hertz float64) []byte {
	var raw []byte
	for i := range openAIRate {
		v := int16(8000 * math.Sin(2*math.Pi*hertz*float64(i)/openAIRate))
		raw = binary.LittleEndian.AppendUint16(raw, uint16(v))
	}
	return base64.StdEncoding.AppendEncode(nil, raw)
}

// TestResampling checks that a tone below 8 kHz retains its length and amplitude, and that a higher
// tone is removed. The result must not depend on the size of the pieces.
func TestResampling(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		hertz float64
		kept  bool
	}{{200, true}, {1000, true}, {5000, true}, {9500, false}, {11000, false}} {
		text := tone(one.hertz)
		var results [2][]byte
		for i, size := range []int{len(text), 644} {
			a := &AudioConverter{resample: true}
			for rest := text; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				_ = a.SendPieces(rest[:min(size, len(rest))], func(message []byte) error {
					var m struct{ Audio string }
					if err := json.Unmarshal(message, &m); err != nil {
						t.Fatal(err)
					}
					raw, err := base64.StdEncoding.DecodeString(m.Audio)
					results[i] = append(results[i], raw...)
					return err
				})
			}
		}
		if string(results[0]) != string(results[1]) {
			t.Errorf("%v Hz: pieces change the audio", one.hertz)
		}
		n := len(results[0]) / 2
		if n < vllmRate-30 || n > vllmRate {
			t.Errorf("%v Hz: %d samples", one.hertz, n)
		}
		sum := 0.0
		for i := 1000; i < n-1000; i++ {
			v := float64(int16(binary.LittleEndian.Uint16(results[0][2*i:])))
			sum += v * v
		}
		level := math.Sqrt(2*sum/float64(n-2000)) / 8000
		if one.kept && (level < 0.95 || level > 1.05) || !one.kept && level > 0.02 {
			t.Errorf("%v Hz: level %.3f", one.hertz, level)
		}
	}
}

// TestCheck checks which texts count as valid base64.
func TestCheck(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"AAAA": true, "AAA=": true, "AA==": true, "A===": false, "AA=A": false, "AAA": false, "AA A": false, "-_AA": false, "A\nAA": false} {
		if got := CheckBase64([]byte(text)) == nil; got != ok {
			t.Errorf("%q: %t", text, got)
		}
	}
}

// FuzzSession checks that all messages are JSON and nothing panics, whatever both sides send.
func FuzzSession(f *testing.F) {
	f.Add(true, `{"type":"session.update","session":{"audio":{"input":{"transcription":{"model":"x"}}}}}`, `{"type":"transcription.done","text":"a","usage":{"prompt_tokens":1,"completion_tokens":2}}`)
	f.Add(false, `{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"\u0041"}`, `{"type":"error","error":{"message":"x"}}`)
	f.Add(true, `{"type":"input_audio_buffer.commit"}`, `{"type":"transcription.delta","delta":"\ud800"}`)
	f.Fuzz(func(t *testing.T, isVLLM bool, client, engine string) {
		talk, form := NewSessionState("S"), ProtocolOpenAI
		if isVLLM {
			form = ProtocolVLLM
		}
		if _, refused := talk.ConnectEngine(form, "served"); refused != nil {
			t.Fatal(refused)
		}
		var all []string
		for range 2 {
			a, b := sendFromClient(t, talk, client)
			all = append(append(all, a...), b...)
			for _, m := range sendFromEngine(t, talk, engine) {
				if m[0] != '!' {
					all = append(all, m)
				}
			}
			a, b = sendFromClient(t, talk, `{"type":"input_audio_buffer.append","audio":"AAAA"}`)
			all = append(append(all, a...), b...)
		}
		for _, m := range append(all, string(talk.CreatedEvent())) {
			if !json.Valid([]byte(m)) {
				t.Errorf("no JSON: %q", m)
			}
		}
	})
}
