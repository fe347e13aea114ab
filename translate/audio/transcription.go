package audio

import (
	"bytes"
	"strconv"
	"strings"

	"penstock/translate/chat"
	"penstock/translate/forward"
)

// Transcription is a form for POST /v1/audio/transcriptions. Pass the fields in the order in which
// they arrive, then call End. The zero value is ready for one form. All errors are *apierr.Error.
type Transcription struct {
	Refuse *chat.RefusedMembers

	seen          forward.Seen
	model         []byte
	format        string // "" until it is known
	stream        bool
	granularities bool
}

const (
	fieldModel = iota
	fieldFile
	fieldLanguage
	fieldPrompt
	fieldFormat
	fieldTemperature
	fieldStream
)

var formFields = []string{
	fieldModel:       "model",
	fieldFile:        "file",
	fieldLanguage:    "language",
	fieldPrompt:      "prompt",
	fieldFormat:      "response_format",
	fieldTemperature: "temperature",
	fieldStream:      "stream",
}

var formTypes = map[string]string{
	"json":          "application/json",
	"verbose_json":  "application/json",
	"diarized_json": "application/json", // not in the contract, but some engines support it
	"text":          "text/plain",
	"srt":           "text/srt",
	"vtt":           "text/vtt",
}

const defaultFormat = "json"

// The two spellings of one field. Engines expect the spelling with brackets.
const (
	granularities  = "timestamp_granularities[]"
	granularities2 = "timestamp_granularities"
)

// The two spellings of one field. The field contains audio samples that let an engine recognize
// speakers.
const (
	speakerReferences  = "known_speaker_references[]"
	speakerReferences2 = "known_speaker_references"
)

// checkReference accepts only a data URL, because an engine would fetch any other URL.
func checkReference(value []byte) error {
	head, _, ok := bytes.Cut(value, []byte{','})
	head = bytes.ToLower(head)
	if !ok || !bytes.HasPrefix(head, []byte("data:")) || !bytes.HasSuffix(head, []byte(";base64")) {
		return chat.WrongValue(speakerReferences2, "must be a data URL with base64").Err()
	}
	return nil
}

// Text processes a text field. It returns the field's name for the engine, or "" to drop the field.
func (t *Transcription) Text(name string, value []byte) (as string, err error) {
	switch name {
	case granularities, granularities2:
		return granularities, t.granularity(value)
	case speakerReferences, speakerReferences2:
		return name, checkReference(value)
	}
	which, err := t.seen.Note(name, formFields)
	if err != nil {
		return "", err
	}
	if which != fieldModel && which != fieldFile && which >= 0 && len(value) == 0 {
		return "", nil
	}
	switch which {
	case fieldModel:
		t.model = append([]byte{}, value...)
		return "", forward.CheckModelName(t.model)
	case fieldFile:
		return "", chat.InvalidType("file", "must be sent as a file: its part needs a file name").Err()
	case fieldFormat:
		err = t.responseFormat(string(value))
	case fieldTemperature:
		err = checkTemperature(string(value))
	case fieldStream:
		return "", t.streamed(string(value)) // End adds the field once the format is known
	case fieldLanguage, fieldPrompt:
	default:
		if err = chat.RefuseMediaText(name, value); err == nil {
			err = t.Refuse.Name(name)
		}
	}
	return name, err
}

func (t *Transcription) responseFormat(value string) error {
	if formTypes[value] == "" {
		return chat.WrongValue("response_format", "must be json, text, srt, verbose_json, diarized_json or vtt").Err()
	}
	t.format = value
	return t.checkGranularities()
}

func (t *Transcription) granularity(value []byte) error {
	if s := string(value); s != "word" && s != "segment" {
		return chat.WrongValue(granularities2, "must be word or segment").Err()
	}
	t.granularities = true
	if t.format == "" {
		return nil // End checks which other fields have arrived
	}
	return t.checkGranularities()
}

func (t *Transcription) checkGranularities() error {
	if t.granularities && t.format != "verbose_json" {
		return chat.WrongValue(granularities2, "needs response_format verbose_json").Err()
	}
	return nil
}

func checkTemperature(value string) error {
	for _, c := range value {
		if !strings.ContainsRune("0123456789.-+eE", c) { // rejects infinities and hexadecimal numbers
			return chat.InvalidType("temperature", "must be a number").Err()
		}
	}
	f, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil && f == 0:
		return chat.InvalidType("temperature", "must be a number").Err()
	case err != nil || f < 0:
		return chat.WrongValue("temperature", "must be a number of 0 or more").Err() // the engine checks the maximum
	}
	return nil
}

// streamed reads a boolean in every spelling that form libraries use.
func (t *Transcription) streamed(value string) error {
	switch value {
	case "true", "True", "1":
		t.stream = true
	case "false", "False", "0":
	default:
		return chat.InvalidType("stream", "must be true or false").Err()
	}
	return nil
}

// File processes a part with a file name. It returns the same values as Text.
func (t *Transcription) File(name string) (as string, err error) {
	which, err := t.seen.Note(name, formFields)
	switch {
	case err != nil:
		return "", err
	case which == fieldFile:
		return name, nil
	case which >= 0:
		return "", forward.NotText(formFields, which, nil)
	}
	return "", chat.Unsupported("file", "must be the only file of the form").Err()
}

// FileEnd checks the length of the file.
func (t *Transcription) FileEnd(size int64) error {
	if size == 0 {
		return chat.WrongValue("file", "must not be empty").Err()
	}
	return nil
}

// End checks the whole form and returns the fields to add to it.
func (t *Transcription) End() ([]forward.Field, error) {
	switch {
	case !t.seen.Has(fieldModel):
		return nil, chat.Missing("model").Err()
	case !t.seen.Has(fieldFile):
		return nil, chat.Missing("file").Err()
	}
	var add []forward.Field
	if t.format == "" {
		t.format = defaultFormat
		add = append(add, forward.Field{Name: "response_format", Value: defaultFormat})
	}
	if t.stream && t.format != "srt" && t.format != "vtt" { // events would split the lines of subtitles
		add = append(add, forward.Field{Name: "stream", Value: "true"})
	}
	return add, t.checkGranularities()
}

// Model returns the model's name, or nil if the field has not arrived yet.
func (t *Transcription) Model() []byte { return t.model }

// Stream reports whether the client wants events.
func (t *Transcription) Stream() bool { return t.stream }

// PlainText reports whether the client requested plain text.
func (t *Transcription) PlainText() bool { return t.format == "text" }

// ContentType returns the media type of a response that is not streamed. Call it after End.
func (t *Transcription) ContentType() string { return formTypes[t.format] }

// JSON reports whether a response that is not streamed is JSON.
func (t *Transcription) JSON() bool { return formTypes[t.format] == formTypes[defaultFormat] }
