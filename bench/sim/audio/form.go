package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
)

// IsAudio reports whether b starts like an audio file that whisper.cpp's server can decode.
func IsAudio(b []byte) bool {
	for _, magic := range []string{"RIFF", "ID3", "\xff\xfb", "\xff\xf3", "fLaC", "OggS"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return true
		}
	}
	return false
}

// Form is a multipart form with one file. It shares no memory with the request body.
type Form struct {
	File   []byte
	Fields map[string]string
	Words  string // timestamp_granularities
}

// ReadForm parses a multipart body with the given Content-Type.
func ReadForm(ctype string, body []byte) (*Form, error) {
	kind, params, err := mime.ParseMediaType(ctype)
	if err != nil {
		return nil, err
	}
	if kind != "multipart/form-data" {
		return nil, fmt.Errorf("want multipart/form-data, got %s", kind)
	}
	f := &Form{Fields: map[string]string{}}
	r := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := r.NextRawPart()
		if err == io.EOF { //nolint:errorlint // a wrapped io.EOF means that the form ends early
			return f, nil
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		switch name := p.FormName(); name {
		case "file":
			f.File = b
		case "timestamp_granularities[]", "timestamp_granularities":
			f.Words += string(b) + " "
		default:
			f.Fields[name] = string(b)
		}
	}
}

// Seconds returns the length of the audio. For a WAV file, the header contains the exact length.
// For other formats, the length is estimated from the file size, at 16 KB per second.
func (f *Form) Seconds() float64 {
	b := f.File
	if len(b) > 44 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WAVE" {
		if rate := binary.LittleEndian.Uint32(b[28:]); rate > 0 {
			return float64(len(b)-44) / float64(rate)
		}
	}
	return float64(len(b)) / 16000
}
