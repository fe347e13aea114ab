package audio

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// passFields passes the fields of a form to t and returns the fields that are passed on. Fields are
// written as "name=value" and separated by ";". "name=@n" is a file of n bytes.
func passFields(t *Transcription, form string) (out []string, err error) {
	for field := range strings.SplitSeq(form, ";") {
		name, value, _ := strings.Cut(field, "=")
		var as string
		if size, file := strings.CutPrefix(value, "@"); file {
			if as, err = t.BeginFile(name); err == nil {
				var n int64
				_, _ = fmt.Sscan(size, &n)
				err = t.EndFile(n)
			}
		} else {
			as, err = t.AddTextField(name, []byte(value))
		}
		if err != nil {
			return nil, err
		}
		if as != "" {
			out = append(out, as+"="+value)
		}
	}
	more, err := t.Finish()
	for _, f := range more {
		out = append(out, f.Name+"="+f.Value)
	}
	return out, err
}

func TestTranscription(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ form, want, contentType string }{
		{"model=w;file=@9", "file=@9 response_format=json", "application/json"},
		{"file=@9;model=w", "file=@9 response_format=json", "application/json"},
		{"model=w;file=@9;response_format=text", "file=@9 response_format=text", "text/plain"},
		{"model=w;file=@9;response_format=srt", "file=@9 response_format=srt", "text/srt"},
		{"model=w;file=@9;response_format=vtt", "file=@9 response_format=vtt", "text/vtt"},
		{"model=w;file=@9;response_format=verbose_json", "file=@9 response_format=verbose_json", "application/json"},
		{"model=w;file=@9;response_format=;language=;prompt=;temperature=;stream=", "file=@9 response_format=json", "application/json"},
		{"model=w;language=de;prompt=Hallo Welt;temperature=0.5;file=@1;beam_size=5", "language=de prompt=Hallo Welt temperature=0.5 file=@1 beam_size=5 response_format=json", "application/json"},
		{
			"model=w;timestamp_granularities[]=word;timestamp_granularities=segment;file=@1;response_format=verbose_json",
			"timestamp_granularities[]=word timestamp_granularities[]=segment file=@1 response_format=verbose_json", "application/json",
		},
		{"model=w;file=@9;stream=true", "file=@9 response_format=json stream=true", "application/json"},
		{"model=w;stream=true;response_format=vtt;file=@9", "response_format=vtt file=@9", "text/vtt"},
		{"model=w;stream=true;response_format=srt;file=@9", "response_format=srt file=@9", "text/srt"},
		{"model=w;file=@9;temperature=1e-2;stream=False", "file=@9 temperature=1e-2 response_format=json", "application/json"},
		{"model=w;file=@9;temperature=0;beam_size=", "file=@9 temperature=0 beam_size= response_format=json", "application/json"},
		{"model=w;file=@9;temperature=1.5;response_format=diarized_json", "file=@9 temperature=1.5 response_format=diarized_json", "application/json"},
		{"model=w;file=@9;temperature=+1E0", "file=@9 temperature=+1E0 response_format=json", "application/json"},
	} {
		var tr Transcription
		out, err := passFields(&tr, c.form)
		if got := strings.Join(out, " "); err != nil || got != c.want || tr.ContentType() != c.contentType || string(tr.Model()) != "w" {
			t.Errorf("%s:\n %s, %s, %v\nwant\n %s, %s", c.form, got, tr.ContentType(), err, c.want, c.contentType)
		}
		if tr.WantsStream() != strings.Contains(c.form, "stream=true") || tr.IsJSON() != strings.HasSuffix(c.contentType, "json") {
			t.Errorf("%s: stream %v, JSON %v", c.form, tr.WantsStream(), tr.IsJSON())
		}
	}
}

func TestTranscriptionRefuses(t *testing.T) {
	t.Parallel()
	for form, want := range map[string]string{
		"file=@9":                              "model missing_parameter",
		"model=w":                              "file missing_parameter",
		"model=w;model=w;file=@9":              "model duplicate_member",
		"model=w;Model=w;file=@9":              "model duplicate_member",
		"model=;file=@9":                       "model invalid_value",
		"model=a\nb;file=@9":                   "model invalid_value",
		"model=" + strings.Repeat("x", 257):    "model invalid_value",
		"model=@9":                             "model invalid_type",
		"model=w;file=x":                       "file invalid_type",
		"model=w;file=":                        "file invalid_type",
		"model=w;file=@0":                      "file invalid_value",
		"model=w;file=@1;file=@1":              "file duplicate_member",
		"model=w;file=@1;other=@1":             "file unsupported_parameter",
		"model=w;file=@1;response_format=JSON": "response_format invalid_value",
		"model=w;file=@1;temperature=warm":     "temperature invalid_type",
		"model=w;file=@1;temperature=nan":      "temperature invalid_type",
		"model=w;file=@1;temperature=0x1p-2":   "temperature invalid_type",
		"model=w;file=@1;temperature=0.5.5":    "temperature invalid_type",
		"model=w;file=@1;temperature=-1":       "temperature invalid_value",
		"model=w;file=@1;temperature=1e999":    "temperature invalid_value",
		"model=w;file=@1;stream=yes":           "stream invalid_type",
		"model=w;response_formAt=text;file=@1": "response_format duplicate_member",
		"model=w;file=@1;timestamp_granularities=ms;response_format=verbose_json": "timestamp_granularities invalid_value",
		"model=w;file=@1;timestamp_granularities=word":                            "timestamp_granularities invalid_value",
		"model=w;file=@1;timestamp_granularities=word;response_format=json":       "timestamp_granularities invalid_value",
		"model=w;file=@1;response_format=srt;timestamp_granularities[]=":          "timestamp_granularities invalid_value",
		"model=w;file=@1;bootstrap_host=x":                                        "bootstrap_host unsupported_parameter",
		"model=w;file=@1;bootstrap_host=":                                         "bootstrap_host unsupported_parameter",
		"model=w;file=@1;audio_url=http://10.0.0.1/a":                             "audio_url invalid_value",
		"model=w;file=@1;X-Upstream=x":                                            "x-* unsupported_parameter",
	} {
		_, err := passFields(&Transcription{Refuse: chat.NewRefusedMembers("bootstrap_*")}, form)
		var e *apierr.Error
		if !errors.As(err, &e) || e.Param+" "+e.Code != want || e.Status != 400 {
			t.Errorf("%s: %v, want %s", form, err, want)
		}
	}
}

// TestSpeakerReferences checks that the field must be a data URL, because an engine would fetch any
// other URL.
func TestSpeakerReferences(t *testing.T) {
	t.Parallel()
	for value, good := range map[string]bool{
		"data:audio/wav;base64,UklGRg==": true, "DATA:audio/mpeg;codecs=x;BASE64,SUQz": true,
		"": false, "http://10.0.0.1/a.wav": false, "https://example.com/a.wav": false, "file:///etc/passwd": false, "/etc/passwd": false,
		"data:audio/wav,x": false, "UklGRg==": false, " http://10.0.0.1/data:;base64,": false, "data:audio/wav;base64": false,
	} {
		for _, name := range []string{"known_speaker_references[]", "known_speaker_references"} {
			as, err := new(Transcription).AddTextField(name, []byte(value))
			if (err == nil) != good || good && as != name {
				t.Errorf("%s=%q: got %q, %v, want success: %v", name, value, as, err, good)
			}
			var e *apierr.Error
			if !good && (!errors.As(err, &e) || e.Status != 400 || e.Param != "known_speaker_references") {
				t.Errorf("%s=%q: got the error %v, want a 400 at known_speaker_references", name, value, err)
			}
		}
	}
}
