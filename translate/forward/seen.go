package forward

import (
	"strings"

	"penstock/translate/apierr"
	"penstock/translate/chat"
)

// Field is a text field of a form.
type Field struct{ Name, Value string }

// Seen records which fields of a form have arrived. The zero value is ready.
type Seen uint32

// Note records a field's name and returns the name's index in known, or -1 if known does not
// contain it. The error is an *apierr.Error for a field that occurs twice, or for a known field in
// another case, because two readers could see different forms.
func (s *Seen) Note(name string, known []string) (int, error) {
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
func (s *Seen) Has(i int) bool { return *s&(1<<i) != 0 }

// NotText returns the error for a known field that was sent as a file, or the error that Note
// returned.
func NotText(known []string, which int, err error) error {
	if err != nil {
		return err
	}
	return chat.InvalidType(known[which], "must be a text field, without a file name").Err()
}
