package chat

import (
	"strings"
	"testing"

	"penstock/translate/apierr"
)

// TestMediaParts checks that parts with audio, video and files are accepted only if the model's
// entry names their kind.
func TestMediaParts(t *testing.T) {
	const (
		unsupportedParam = apierr.CodeUnsupportedParameter

		audio     = `{"type":"input_audio","input_audio":{"data":"aGVsbG8=","format":"wav"}}`
		audioURL  = `{"type":"audio_url","audio_url":{"url":"https://media.example.com/a.mp3"}}`
		audioData = `{"type":"audio_url","audio_url":{"url":"data:audio/mpeg;base64,aGVsbG8="}}`
		video     = `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,aGVsbG8="}}`
		videoURL  = `{"type":"video_url","video_url":{"url":"https://media.example.com/a.mp4"}}`
		file      = `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGVsbG8="}}`
		bareFile  = `{"type":"file","file":{"file_data":"aGVsbG8="}}`
	)
	all := []string{"text", "image", "audio", "video", "file"}
	at := func(member string) string { return "messages[0].content[1]." + member }
	for _, c := range []struct {
		name   string
		part   string
		limits ModelRules
		code   string
		param  string
	}{
		{"audio", audio, ModelRules{InputModalities: all}, "", ""},
		{"audio at a URL", audioURL, ModelRules{InputModalities: all}, "", ""},
		{"audio in a data URL", audioData, ModelRules{InputModalities: all}, "", ""},
		{"video", video, ModelRules{InputModalities: all}, "", ""},
		{"video at a URL", videoURL, ModelRules{InputModalities: all}, "", ""},
		{"file", file, ModelRules{InputModalities: all}, "", ""},
		{"file without a type", bareFile, ModelRules{InputModalities: all}, "", ""},
		{"several", audio + "," + video + "," + file, ModelRules{InputModalities: all}, "", ""},

		{"audio, not taken", audio, ModelRules{InputModalities: []string{"text", "video"}}, unsupportedParam, at("input_audio")},
		{"video, not taken", video, ModelRules{InputModalities: []string{"text", "audio"}}, unsupportedParam, at("video_url")},
		{"file, not taken", file, ModelRules{InputModalities: []string{"text", "image"}}, unsupportedParam, at("file")},
		{"nobody knows what is taken", audio, ModelRules{}, unsupportedParam, at("input_audio")},
		{"strict", audio, ModelRules{InputModalities: all, Strict: true}, unsupportedParam, at("input_audio")},
		{"a host that media are not taken from", videoURL, ModelRules{InputModalities: all, ImageHosts: []string{"a.example.org"}}, badValue, at("video_url.url")},
		{"a host that they are", videoURL, ModelRules{InputModalities: all, ImageHosts: []string{"*.example.com"}}, "", ""},

		{"stored file", `{"type":"file","file":{"file_id":"file-1"}}`, ModelRules{InputModalities: all}, unsupportedParam, at("file.file_id")},
		{"file at a URL", `{"type":"file","file":{"file_data":"https://media.example.com/a.pdf"}}`, ModelRules{InputModalities: all}, badValue, at("file.file_data")},
		{"file without data", `{"type":"file","file":{"filename":"a.pdf"}}`, ModelRules{InputModalities: all}, absent, at("file.file_data")},
		{"file, bad data", `{"type":"file","file":{"file_data":"data:application/pdf,x"}}`, ModelRules{InputModalities: all}, badValue, at("file.file_data")},
		{"no file", `{"type":"file"}`, ModelRules{InputModalities: all}, absent, at("file")},
		{"no audio", `{"type":"input_audio"}`, ModelRules{InputModalities: all}, absent, at("input_audio")},
		{"audio without data", `{"type":"input_audio","input_audio":{}}`, ModelRules{InputModalities: all}, absent, at("input_audio.data")},
		{"audio, bad data", `{"type":"input_audio","input_audio":{"data":"https://media.example.com/","format":"wav"}}`, ModelRules{InputModalities: all}, badValue, at("input_audio.data")},
		{"audio without a format", `{"type":"input_audio","input_audio":{"data":"aGVsbG8="}}`, ModelRules{InputModalities: all}, absent, at("input_audio.format")},
		{"audio, an invalid format", `{"type":"input_audio","input_audio":{"data":"aGVsbG8=","format":"wav;base64,x"}}`, ModelRules{InputModalities: all}, badValue, at("input_audio.format")},
		{"audio that is video", `{"type":"audio_url","audio_url":{"url":"data:video/mp4;base64,aGVsbG8="}}`, ModelRules{InputModalities: all}, badValue, at("audio_url.url")},
		{"an address", `{"type":"video_url","video_url":{"url":"https://10.0.0.1/a.mp4"}}`, ModelRules{InputModalities: all}, badValue, at("video_url.url")},
		{"another scheme", `{"type":"video_url","video_url":{"url":"file:///etc/passwd"}}`, ModelRules{InputModalities: all}, badValue, at("video_url.url")},
		{"a bare string", `{"type":"video_url","video_url":"https://media.example.com/a.mp4"}`, ModelRules{InputModalities: all}, badType, at("video_url")},
		{"another part's medium", `{"type":"video_url","video_url":{"url":"https://media.example.com/a.mp4"},"audio_url":{"url":"http://10.0.0.1/"}}`, ModelRules{InputModalities: all}, badValue, at("audio_url")},
		{"another part's image", `{"type":"input_audio","input_audio":{"data":"aGVsbG8=","format":"wav"},"image_url":"http://10.0.0.1/"}`, ModelRules{InputModalities: all}, badValue, at("image_url")},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := []byte(partBody(`{"type":"text","text":"a"},` + c.part))
			var r Request
			err := r.Decode(body)
			if err == nil {
				err = r.CheckRules(&c.limits)
			}
			if c.code != "" {
				if e := requireInvalid(t, string(body), err); e.Code != c.code || e.Param != c.param {
					t.Errorf("got %v, want the code %s at %s", e, c.code, c.param)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: string(r.Model)})); got != string(body) {
				t.Errorf("the engine is sent %s", got)
			}
		})
	}
}

// TestRefusalParts checks that a refusal part in the history is sent to an engine as a text part.
func TestRefusalParts(t *testing.T) {
	var r Request
	body := `{"model":"m","messages":[{"role":"user","content":"Go."},{"role":"assistant","content":[{"type":"refusal","refusal":"I c\u0061n't."},{"type":"text","text":"Sorry."}]}]}`
	if err := r.Decode([]byte(body)); err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(body, `{"type":"refusal","refusal":`, `{"type":"text","text":`, 1)
	if got := string(r.AppendEngineRequest(nil, &EngineFormat{Served: "m"})); got != want {
		t.Errorf("the engine is sent %s", got)
	}
	if r.Prompt.Bytes != len(`Go.`)+len(`I c\u0061n't.`)+len(`Sorry.`) {
		t.Errorf("the prompt has %d bytes", r.Prompt.Bytes)
	}
	for in, want := range map[string]string{
		`{"role":"user","content":[{"type":"refusal","refusal":"No."}]}`:                                   "messages[0].content[0].type",
		`{"role":"assistant","content":[{"type":"refusal"}]}`:                                              "messages[0].content[0].refusal",
		`{"role":"assistant","content":[{"type":"refusal","refusal":"a","image_url":"http://10.0.0.1/"}]}`: "messages[0].content[0].image_url",
	} {
		if e := requireInvalid(t, in, r.Decode([]byte(bodyOf(in)))); e.Param != want {
			t.Errorf("%s: got %v, want an error at %s", in, e, want)
		}
	}
}
