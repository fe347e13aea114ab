package forward

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Edit is a form for images/edits: it has one model, at least one file, and any other fields. The
// zero value is ready for one form.
type Edit struct {
	Refuse *chat.RefusedMembers

	seen  Seen
	model []byte
	files int
}

const (
	fieldModel = iota
	fieldStream
)

var editFields = []string{fieldModel: "model", fieldStream: "stream"}

// Text processes a text field. It returns the field's name for the engine, or "" to drop the field.
// The error is an *apierr.Error.
func (e *Edit) Text(name string, value []byte) (as string, err error) {
	which, err := e.seen.Note(name, editFields)
	switch {
	case err != nil:
		return "", err
	case which == fieldModel:
		e.model = append([]byte{}, value...)
		return "", CheckModelName(e.model)
	case which == fieldStream:
		return "", checkNoStream(value)
	}
	if err := chat.RefuseMediaText(name, value); err != nil {
		return "", err
	}
	return name, e.Refuse.Name(name)
}

// File processes a part with a file name. It returns the same values as Text.
func (e *Edit) File(name string) (as string, err error) {
	if which, err := e.seen.Note(name, editFields); err != nil || which >= 0 {
		return "", NotText(editFields, which, err)
	}
	e.files++
	return name, e.Refuse.Name(name)
}

// FileEnd accepts a file of any length.
func (e *Edit) FileEnd(int64) error { return nil }

// End checks the whole form and returns the fields to add to it.
func (e *Edit) End() ([]Field, error) {
	switch {
	case e.model == nil:
		return nil, chat.Missing("model").Err()
	case e.files == 0:
		return nil, apierr.Invalid("image", apierr.CodeMissingParameter, "image is required: send it as a file.")
	}
	return nil, nil
}

// Model returns the model's name, or nil if the field has not arrived yet.
func (e *Edit) Model() []byte { return e.model }

// Stream returns false, because the edge does not stream image edits.
func (e *Edit) Stream() bool { return false }

func checkNoStream(value []byte) error {
	switch string(value) {
	case "", "false", "False", "0":
		return nil
	}
	return chat.Unsupported("stream", "must be false or absent: this endpoint has no streams").Err()
}
