package apierr

import (
	"errors"

	"penstock/translate/jsonx"
)

// FromJSON returns the 400 for an error of package jsonx; any other error is an Internal one, with
// err as its cause. err must not be nil. The parameter of a jsonx.MemberError is its name after
// prefix, which is empty or the path of the object with a dot, as in "messages[2].".
func FromJSON(err error, prefix string) *Error {
	var (
		syntax *jsonx.SyntaxError
		limit  *jsonx.LimitError
		member *jsonx.MemberError
	)
	switch {
	case errors.As(err, &syntax):
		return Invalid("", CodeInvalidJSON, "The request body is not valid JSON: %s at byte %d.",
			syntax.Reason, syntax.Offset)
	case errors.As(err, &limit):
		return Invalid("", CodeJSONLimit, "The request body has more than the limit: %d %s.", limit.Max, limit.Limit)
	case errors.As(err, &member):
		name := prefix + member.Name
		return Invalid(name, CodeDuplicateMember, "%s is %s.", name, member.Remedy())
	}
	return Internal(err)
}
