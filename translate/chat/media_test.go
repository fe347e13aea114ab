package chat

import (
	"errors"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// TestCheckMedia checks that CheckMedia finds all media that engines would fetch, and ignores
// texts.
func TestCheckMedia(t *testing.T) {
	t.Parallel()
	const bad = `"http://127.0.0.1/"`
	deep := strings.Repeat(`{"a":[`, 12) + `{"image_url":` + bad + `}` + strings.Repeat(`]}`, 12)
	for in, param := range map[string]string{
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":` + bad + `}}]}]}`: "messages[0].content[0].image_url.url",
		`{"input":{"content":[{"type":"image_url","image_url":` + bad + `}]}}`:                            "input.content[0].image_url",
		`{"input":"x","image_url":` + bad + `}`:                                                           "image_url",
		`{"input":[{"image":` + bad + `}]}`:                                                               "input[0].image",
		`{"documents":["a",{"content":[{"video_url":{"url":` + bad + `}}]}]}`:                             "documents[1].content[0].video_url.url",
		`{"query":{"content":[{"audio_url":{"url":` + bad + `}}]}}`:                                       "query.content[0].audio_url.url",
		`{"input":[{"type":"image","url":` + bad + `}]}`:                                                  "input[0].url",
		`{"ref_audio":` + bad + `}`:                                                                       "ref_audio",
		`{"images":["aGk=",` + bad + `]}`:                                                                 "images[1]",
		`{"images":[[` + bad + `]]}`:                                                                      "images[0][0]",
		`{"Image":"file:///etc/passwd"}`:                                                                  "image",
		`{"im\u0061ge":` + bad + `}`:                                                                      "*",
		`{"image":" HTTP://a.example.com"}`:                                                               "image",
		`{"image":"ht\ntp://a.example.com"}`:                                                              "image",
		`{"image":"\u3000http://a.example.com"}`:                                                          "image",
		`{"image":"https://10.0.0.1/"}`:                                                                   "image",
		`{"image":"https://b.example.org/"}`:                                                              "image",
		`{"image":"data:text/html;base64,aGk="}`:                                                          "image",
		`{"image":"data:image/png;base64,aGk="}`:                                                          "image",
		`{"audio":"data:audio/wav,x"}`:                                                                    "audio",
		`{"audio":"data:audio/wav"}`:                                                                      "audio",
		`{"audio":"data:audio/wav,aGk="}`:                                                                 "audio",
		`{"video":"data:video/mp4;base64,!"}`:                                                             "video",
		`{"video":"data:video/mp4;base64,aGk="}`:                                                          "",
		`{"image":"s3://a.example.com/x"}`:                                                                "image",
		`{"image":"git+ssh://a.example.com/x"}`:                                                           "image",
		`{"image":"x-y.z:x"}`:                                                                             "image",
		`{"input_audio":{"data":` + bad + `}}`:                                                            "input_audio.data",
		`{"x":` + deep + `}`:                                                                              "*" + strings.Repeat(".*[0]", 12) + ".image_url",
		`{"image":"https://a.example.com/x"}`:                                                             "",
		`{"image":"` + webpURL + `"}`:                                                                     "",
		`{"ref_audio":"data:audio/wav;base64,aGk="}`:                                                      "",
		`{"image":"/9j/4AAQ","mask":null,"audio":{"id":"a"}}`:                                             "",
		`{"prompt":` + bad + `,"documents":[` + bad + `]}`:                                                "",
		`{"input":[` + bad + `],"url":` + bad + `}`:                                                       "",
		`{"documents":[{"text":` + bad + `,"url":` + bad + `}]}`:                                          "",
		`{"image":{"caption":` + bad + `,"n":[1]}}`:                                                       "",
		`{"input":[[1,2],[3]]}`:                                                                           "",
		`{"speaker_wav":"/etc/passwd"}`:                                                                   "speaker_wav",
		`{"speaker_wav":["a","/etc/shadow1"]}`:                                                            "speaker_wav[1]",
		`{"prompt_wav":"../secret/key.wav"}`:                                                              "prompt_wav",
		`{"ref_audio":"~/a.wav"}`:                                                                         "ref_audio",
		`{"ref_audio_path":"voices/../../a.wav"}`:                                                         "ref_audio_path",
		`{"refer_wav_path":"a\\b.wav"}`:                                                                   "refer_wav_path",
		`{"spk_audio_prompt":"C:\\a.wav"}`:                                                                "spk_audio_prompt",
		`{"prompt_audio_path":"\\\\10.0.0.1\\share"}`:                                                     "prompt_audio_path",
		`{"image":{"path":" /etc/passwd"}}`:                                                               "image.path",
		`{"references":[{"audio":"file:///etc/passwd","text":"/etc/passwd"}]}`:                            "references[0].audio",
		`{"type":"document_url","document_url":` + bad + `}`:                                              "document_url",
		`{"speaker_wav":"calm_female.wav","prompt_wav":"alice"}`:                                          "",
		`{"images":["iVBORw0KGgo/AA+==","a/b\n/c"],"image":"` + "/9j/" + strings.Repeat("ab+/", 20) + `"}`: "",
		`{"audio":"//uQ` + strings.Repeat("/abc", 1100) + `"}`:                                             "",
	} {
		for _, record := range []int{2, 20} {
			var d jsonx.Doc
			if err := d.Parse([]byte(in), jsonx.Options{Record: record}); err != nil {
				t.Fatal(err)
			}
			err := CheckMedia(d.Root(), &ModelRules{ImageHosts: []string{"a.example.com"}})
			var e *apierr.Error
			if errors.As(err, &e); (err == nil) != (param == "") || err != nil && (e.Param != param || e.Status != 400) {
				t.Errorf("%s: %v, want %q", in, err, param)
			}
		}
	}
	var d jsonx.Doc
	for in, limits := range map[string]*ModelRules{
		dataURL("image/png", pngOf(t, 2, 2, 0)): {Vision: &VisionLimits{MaxPixels: 4}},
		"https://b.example.org/":                {},
	} {
		if err := d.Parse([]byte(`{"image":"`+in+`"}`), jsonx.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := CheckMedia(d.Root(), limits); err != nil {
			t.Errorf("CheckMedia of %s = %v, want success", in, err)
		}
		if CheckMedia(d.Root(), &ModelRules{Vision: &VisionLimits{MaxPixels: 3}, ImageHosts: []string{"a.example.com"}}) == nil {
			t.Errorf("%s: the pixel budget, or the list of hosts, is not held", in)
		}
	}
}

// TestMessageMedia checks that media in a message but outside its content are also rejected.
func TestMessageMedia(t *testing.T) {
	t.Parallel()
	for member, param := range map[string]string{
		`"image_url":{"url":"http://127.0.0.1/"}`: "messages[0].image_url.url",
		`"images":["https://a.example.com/x"]`:    "messages[0].images[0]",
		`"audio":{"url":"http://127.0.0.1/"}`:     "messages[0].audio.url",
		`"audio":{"id":"audio_1"}`:                "",
		`"images":null,"name":"http://x"`:         "",
	} {
		var r Request
		err := r.Decode([]byte(bodyOf(`{"role":"user","content":"x",` + member + `}`)))
		var e *apierr.Error
		if errors.As(err, &e); (err == nil) != (param == "") || err != nil && e.Param != param {
			t.Errorf("%s: %v, want %q", member, err, param)
		}
	}
}

func TestRefuseMediaText(t *testing.T) {
	t.Parallel()
	for field, refused := range map[string]bool{
		"image=http://127.0.0.1/": true, "ref_audio=/etc/passwd": true, "speaker_wav[]=../a.wav": true, "URL=file:///x": true, "image=aGk=": false, "prompt=http://127.0.0.1/": false,
	} {
		name, value, _ := strings.Cut(field, "=")
		if err := CheckMediaField(name, []byte(value)); (err != nil) != refused {
			t.Errorf("CheckMediaField of %s = %v, want an error: %v", field, err, refused)
		}
	}
}

// TestTopMedia checks that media outside the messages of a chat request are checked like parts.
func TestTopMedia(t *testing.T) {
	t.Parallel()
	for member, param := range map[string]string{
		`"images":["file:///etc/passwd"]`:                                                       "images[0]",
		`"images":["/etc/passwd"]`:                                                              "images[0]",
		`"images":["http://169.254.169.254/"]`:                                                  "images[0]",
		`"images":["https://10.0.0.1/x"]`:                                                       "images[0]",
		`"Videos":"https://b.example.org/x"`:                                                    "videos",
		`"audios":[{"url":"http://127.0.0.1/"}]`:                                                "audios[0].url",
		`"documents":[{"title":"x","image_url":"http://127.0.0.1/"}]`:                           "documents[0].image_url",
		`"documents":[{"title":"x","text":"/a","url":"http://127.0.0.1/"}]`:                     "",
		`"images":["aGk=","https://a.example.com/x"]`:                                           "",
		`"image":null,"top_k":4,"response_format":{"type":"text"},"cache_prompt":true`:          "",
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"image":"/etc/x"}}}]`: "",
		`"chat_template_kwargs":{"image":"/etc/x"}`:                                             "",
	} {
		var r Request
		body := strings.TrimSuffix(bodyOf(`{"role":"user","content":"x"}`), "}") + "," + member + "}"
		if err := r.Decode([]byte(body)); err != nil {
			t.Fatalf("Decode with %s = %v, want success", member, err)
		}
		err := r.CheckRules(&ModelRules{ImageHosts: []string{"a.example.com"}})
		var e *apierr.Error
		if errors.As(err, &e); (err == nil) != (param == "") || err != nil && (e.Param != param || e.Status != 400) {
			t.Errorf("%s: %v, want %q", member, err, param)
		}
	}
}
