package audio

import (
	"bytes"
	"strconv"
	"strings"

	"penstock/translate/chat"
	"penstock/translate/forward"
)

// Transcription is a form for POST /v1/audio/transcriptions. Pass the fields in the order in which
// they arrive, then call Finish. The zero value is ready for one form. All errors are
// *apierr.Error.
type Transcription struct {
	Refuse *chat.RefusedMembers
	Strict bool // whether values that the contract does not list are rejected

	seen             forward.SeenFields
	model            []byte
	format           string // "" until it is known
	wantsStream      bool
	hasGranularities bool
}

const (
	modelFieldIndex = iota
	fileFieldIndex
	languageFieldIndex
	promptFieldIndex
	formatFieldIndex
	temperatureFieldIndex
	streamFieldIndex
)

var formFields = []string{
	modelFieldIndex:       "model",
	fileFieldIndex:        "file",
	languageFieldIndex:    "language",
	promptFieldIndex:      "prompt",
	formatFieldIndex:      "response_format",
	temperatureFieldIndex: "temperature",
	streamFieldIndex:      "stream",
}

var contentTypeByTranscriptionFormat = map[string]string{
	"json":          "application/json",
	"verbose_json":  "application/json",
	"diarized_json": "application/json", // not in the contract, but some engines support it
	"text":          "text/plain",
	"srt":           "text/srt",
	"vtt":           "text/vtt",
}

const defaultTranscriptionFormat = "json"

// The two spellings of one field. Engines expect the spelling with brackets.
const (
	granularitiesField = "timestamp_granularities[]"
	granularitiesAlias = "timestamp_granularities"
)

// The two spellings of one field. The field contains audio samples that let an engine recognize
// speakers.
const (
	speakerReferencesField = "known_speaker_references[]"
	speakerReferencesAlias = "known_speaker_references"
)

// checkSpeakerReference accepts only a data URL, because an engine would fetch any other URL.
func checkSpeakerReference(value []byte) error {
	head, _, ok := bytes.Cut(value, []byte{','})
	head = bytes.ToLower(head)
	if !ok || !bytes.HasPrefix(head, []byte("data:")) || !bytes.HasSuffix(head, []byte(";base64")) {
		return chat.WrongValueError(speakerReferencesAlias, "must be a data URL with base64").Err()
	}
	return nil
}

// AddTextField processes a text field. It returns the field's name for the engine, or "" to drop the
// field.
func (t *Transcription) AddTextField(name string, value []byte) (as string, err error) {
	switch name {
	case granularitiesField, granularitiesAlias:
		return granularitiesField, t.readGranularity(value)
	case speakerReferencesField, speakerReferencesAlias:
		return name, checkSpeakerReference(value)
	}
	which, err := t.seen.RecordField(name, formFields)
	if err != nil {
		return "", err
	}
	if which != modelFieldIndex && which != fileFieldIndex && which >= 0 && len(value) == 0 {
		return "", nil
	}
	switch which {
	case modelFieldIndex:
		t.model = append([]byte{}, value...)
		return "", forward.CheckModelName(t.model)
	case fileFieldIndex:
		return "", chat.InvalidTypeError("file", "must be sent as a file: its part needs a file name").Err()
	case formatFieldIndex:
		err = t.readResponseFormat(string(value))
	case temperatureFieldIndex:
		err = checkTemperature(string(value))
	case streamFieldIndex:
		return "", t.readStream(string(value)) // Finish adds the field once the format is known
	case languageFieldIndex, promptFieldIndex:
	default:
		if err = chat.CheckMediaField(name, value); err == nil {
			err = t.Refuse.CheckName(name)
		}
	}
	return name, err
}

func (t *Transcription) readResponseFormat(value string) error {
	if t.Strict && value == "diarized_json" {
		return chat.WrongValueError("response_format", "must be json, text, srt, verbose_json or vtt").Err()
	}
	if contentTypeByTranscriptionFormat[value] == "" {
		return chat.WrongValueError("response_format", "must be json, text, srt, verbose_json, diarized_json or vtt").Err()
	}
	t.format = value
	return t.checkGranularities()
}

func (t *Transcription) readGranularity(value []byte) error {
	if s := string(value); s != "word" && s != "segment" {
		return chat.WrongValueError(granularitiesAlias, "must be word or segment").Err()
	}
	t.hasGranularities = true
	if t.format == "" {
		return nil // Finish checks which other fields have arrived
	}
	return t.checkGranularities()
}

func (t *Transcription) checkGranularities() error {
	if t.hasGranularities && t.format != "verbose_json" {
		return chat.WrongValueError(granularitiesAlias, "needs response_format verbose_json").Err()
	}
	return nil
}

func checkTemperature(value string) error {
	for _, c := range value {
		if !strings.ContainsRune("0123456789.-+eE", c) { // rejects infinities and hexadecimal numbers
			return chat.InvalidTypeError("temperature", "must be a number").Err()
		}
	}
	f, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil && f == 0:
		return chat.InvalidTypeError("temperature", "must be a number").Err()
	case err != nil || f < 0:
		// The engine checks the maximum.
		return chat.WrongValueError("temperature", "must be a number of 0 or more").Err()
	}
	return nil
}

// readStream reads a boolean in every spelling that form libraries use.
func (t *Transcription) readStream(value string) error {
	switch value {
	case "true", "True", "1":
		t.wantsStream = true
	case "false", "False", "0":
	default:
		return chat.InvalidTypeError("stream", "must be true or false").Err()
	}
	return nil
}

// BeginFile processes a part with a file name. It returns the same values as AddTextField.
func (t *Transcription) BeginFile(name string) (as string, err error) {
	which, err := t.seen.RecordField(name, formFields)
	switch {
	case err != nil:
		return "", err
	case which == fileFieldIndex:
		return name, nil
	case which >= 0:
		return "", forward.TextFieldError(formFields, which, nil)
	}
	return "", chat.UnsupportedError("file", "must be the only file of the form").Err()
}

// EndFile checks the length of the file.
func (t *Transcription) EndFile(size int64) error {
	if size == 0 {
		return chat.WrongValueError("file", "must not be empty").Err()
	}
	return nil
}

// Finish checks the whole form and returns the fields to add to it.
func (t *Transcription) Finish() ([]forward.Field, error) {
	switch {
	case !t.seen.Has(modelFieldIndex):
		return nil, chat.MissingError("model").Err()
	case !t.seen.Has(fileFieldIndex):
		return nil, chat.MissingError("file").Err()
	}
	var add []forward.Field
	if t.format == "" {
		t.format = defaultTranscriptionFormat
		add = append(add, forward.Field{Name: "response_format", Value: defaultTranscriptionFormat})
	}
	if t.wantsStream && t.format != "srt" && t.format != "vtt" { // events would split the lines of subtitles
		add = append(add, forward.Field{Name: "stream", Value: "true"})
	}
	return add, t.checkGranularities()
}

// Model returns the model's name, or nil if the field has not arrived yet.
func (t *Transcription) Model() []byte { return t.model }

// WantsStream reports whether the client wants events.
func (t *Transcription) WantsStream() bool { return t.wantsStream }

// IsPlainText reports whether the client requested plain text.
func (t *Transcription) IsPlainText() bool { return t.format == "text" }

// ContentType returns the media type of a response that is not streamed. Call it after Finish.
func (t *Transcription) ContentType() string { return contentTypeByTranscriptionFormat[t.format] }

// IsJSON reports whether a response that is not streamed is JSON.
func (t *Transcription) IsJSON() bool {
	return contentTypeByTranscriptionFormat[t.format] == contentTypeByTranscriptionFormat[defaultTranscriptionFormat]
}
