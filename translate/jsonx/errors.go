package jsonx

import (
	"errors"
	"strconv"
)

// SyntaxError means that the source is not JSON. Reason never quotes the source, so both fields may
// appear in responses and logs.
type SyntaxError struct {
	Offset int // offset of the first invalid byte, or len(src) if the source ends too early
	Reason string
}

// IsLoneSurrogate reports whether the error is about a lone surrogate.
func (e *SyntaxError) IsLoneSurrogate() bool { return e.Reason == reasonLoneSurrogate }

// IsLoneSurrogateError reports whether err is a SyntaxError about a lone surrogate.
func IsLoneSurrogateError(err error) bool {
	var syntax *SyntaxError
	return errors.As(err, &syntax) && syntax.IsLoneSurrogate()
}

func (e *SyntaxError) Error() string {
	return "parse JSON: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// The values of SyntaxError.Reason.
const (
	reasonEnd           = "unexpected end"
	reasonBOM           = "byte order mark or not UTF-8"
	reasonValue         = "expected a value"
	reasonLiteral       = "invalid literal"
	reasonNumber        = "invalid number"
	reasonControl       = "control character in a string"
	reasonEscape        = "invalid escape in a string"
	reasonLoneSurrogate = "half of a surrogate pair in a string"
	reasonUTF8          = "invalid UTF-8 in a string"
	reasonName          = "expected a member name in quotes"
	reasonColon         = "expected ':' after a member name"
	reasonObject        = "expected ',' or '}' after a member"
	reasonArray         = "expected ',' or ']' after an element"
	reasonTrailing      = "data after the value"
)

// Limit is the limit that a LimitError reports, worded for an error message.
type Limit string

// The limits of Parse.
const (
	LimitDepth   Limit = "levels of nesting"
	LimitMembers Limit = "members of one object"
	LimitNodes   Limit = "values"
	LimitSize    Limit = "bytes"
)

// LimitError means that the source exceeds a limit of Parse.
type LimitError struct {
	Offset int
	Limit  Limit
	Max    int
}

func (e *LimitError) Error() string {
	return "parse JSON: more than " + strconv.Itoa(e.Max) + " " + string(e.Limit) + " at byte " + strconv.Itoa(e.Offset)
}

// MemberProblem is the reason for a MemberError.
type MemberProblem uint8

// The problems that Fields reports.
const (
	MemberDuplicate MemberProblem = iota + 1 // the name occurs twice, possibly with escapes
	CaseVariant                              // the name occurs in a different case, as in "Model"
)

func (p MemberProblem) String() string {
	switch p {
	case MemberDuplicate:
		return "given twice"
	case CaseVariant:
		return "spelt in another case"
	}
	return "invalid"
}

// MemberError means that two JSON readers could interpret a member differently. If a name occurs
// twice, some readers use the first value and others the last. Go's decoder ignores case.
type MemberError struct {
	Name    string // as spelled by the caller of Fields, never by the client
	Problem MemberProblem
	Offset  int
}

// Remedy completes a sentence that starts "The member is ".
func (e *MemberError) Remedy() string {
	if e.Problem == CaseVariant {
		return e.Problem.String() + ": spell it `" + e.Name + "`"
	}
	return e.Problem.String()
}

func (e *MemberError) Error() string {
	return "read JSON object: member " + strconv.Quote(e.Name) + " is " + e.Problem.String()
}
