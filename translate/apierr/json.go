package apierr

import (
	"errors"

	"penstock/translate/jsonx"
)

// FromJSONError returns the 400 for an error from package jsonx. For any other error, it returns
// InternalError(err). For a jsonx.MemberError, Param is prefix followed by the member's name.
// prefix is empty or ends with a dot, as in "messages[2].".
func FromJSONError(err error, prefix string) *Error {
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
	return InternalError(err)
}
