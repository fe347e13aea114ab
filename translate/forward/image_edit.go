package forward

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// ImageEdit is a form for images/edits: it has one model, at least one file, and any other fields.
// The zero value is ready for one form.
type ImageEdit struct {
	Refuse *chat.RefusedMembers

	seenFields SeenFields
	model      []byte
	fileCount  int
}

const (
	fieldModel = iota
	fieldStream
)

var imageEditFields = []string{fieldModel: "model", fieldStream: "stream"}

// AddTextField processes a text field. It returns the field's name for the engine, or "" to drop the
// field. The error is an *apierr.Error.
func (e *ImageEdit) AddTextField(name string, value []byte) (as string, err error) {
	which, err := e.seenFields.RecordField(name, imageEditFields)
	switch {
	case err != nil:
		return "", err
	case which == fieldModel:
		e.model = append([]byte{}, value...)
		return "", CheckModelName(e.model)
	case which == fieldStream:
		return "", checkNoStream(value)
	}
	if err := chat.CheckMediaField(name, value); err != nil {
		return "", err
	}
	return name, e.Refuse.CheckName(name)
}

// BeginFile processes a part with a file name. It returns the same values as AddTextField.
func (e *ImageEdit) BeginFile(name string) (as string, err error) {
	if which, err := e.seenFields.RecordField(name, imageEditFields); err != nil || which >= 0 {
		return "", TextFieldError(imageEditFields, which, err)
	}
	e.fileCount++
	return name, e.Refuse.CheckName(name)
}

// EndFile accepts a file of any length.
func (e *ImageEdit) EndFile(int64) error { return nil }

// Finish checks the whole form and returns the fields to add to it.
func (e *ImageEdit) Finish() ([]Field, error) {
	switch {
	case e.model == nil:
		return nil, chat.MissingError("model").Err()
	case e.fileCount == 0:
		return nil, apierr.Invalid("image", apierr.CodeMissingParameter, "image is required: send it as a file.")
	}
	return nil, nil
}

// Model returns the model's name, or nil if the field has not arrived yet.
func (e *ImageEdit) Model() []byte { return e.model }

// WantsStream returns false, because the edge does not stream image edits.
func (e *ImageEdit) WantsStream() bool { return false }

func checkNoStream(value []byte) error {
	switch string(value) {
	case "", "false", "False", "0":
		return nil
	}
	return chat.UnsupportedError("stream", "must be false or absent: this endpoint has no streams").Err()
}
