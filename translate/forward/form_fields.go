package forward

import (
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Field is a text field of a form.
type Field struct{ Name, Value string }

// SeenFields records which fields of a form have arrived. The zero value is empty.
type SeenFields uint32

// RecordField records a field's name and returns its index in known, or -1. The error is an
// *apierr.Error. It reports a field that occurs twice, or a known field in a different case,
// because two readers could see different values.
func (s *SeenFields) RecordField(name string, known []string) (int, error) {
	for i, n := range known {
		if !strings.EqualFold(name, n) {
			continue
		}
		switch {
		case name != n:
			return i, apierr.Invalid(n, apierr.CodeDuplicateMember, "%s is spelt in another case: spell it `%s`.", n, n)
		case *s&(1<<i) != 0:
			return i, apierr.Invalid(n, apierr.CodeDuplicateMember, "%s is given twice.", n)
		}
		*s |= 1 << i
		return i, nil
	}
	return -1, nil
}

// Has reports whether field i has arrived.
func (s *SeenFields) Has(i int) bool { return *s&(1<<i) != 0 }

// TextFieldError returns err, the error from RecordField, if it is not nil. Otherwise it returns
// the error for a known text field that was sent as a file.
func TextFieldError(known []string, which int, err error) error {
	if err != nil {
		return err
	}
	return chat.InvalidTypeError(known[which], "must be a text field, without a file name").Err()
}
