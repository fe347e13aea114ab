package jsonx

import (
	"errors"
	"strconv"
)

// SyntaxError says that the source is not JSON. Reason comes from a closed set of the edge's own
// texts and never quotes the source, so both members may appear in an answer and in a log.
type SyntaxError struct {
	Offset int // of the first byte that cannot be accepted; len(src) if the source ends too early
	Reason string
}

// Lone reports whether the error is a lone surrogate: a \u escape for half of a pair. Only
// Options.Paired refuses such escapes.
func (e *SyntaxError) Lone() bool { return e.Reason == reasonLone }

// IsLone reports whether err is a SyntaxError about a lone surrogate.
func IsLone(err error) bool {
	var syntax *SyntaxError
	return errors.As(err, &syntax) && syntax.Lone()
}

func (e *SyntaxError) Error() string {
	return "parse JSON: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// The reasons of a SyntaxError.
const (
	reasonEnd      = "unexpected end"
	reasonBOM      = "byte order mark or not UTF-8"
	reasonValue    = "expected a value"
	reasonLiteral  = "invalid literal"
	reasonNumber   = "invalid number"
	reasonControl  = "control character in a string"
	reasonEscape   = "invalid escape in a string"
	reasonLone     = "half of a surrogate pair in a string"
	reasonUTF8     = "invalid UTF-8 in a string"
	reasonName     = "expected a member name in quotes"
	reasonColon    = "expected ':' after a member name"
	reasonObject   = "expected ',' or '}' after a member"
	reasonArray    = "expected ',' or ']' after an element"
	reasonTrailing = "data after the value"
)

// Limit names the limit that a LimitError reports.
type Limit string

// The limits of Parse.
const (
	LimitDepth   Limit = "levels of nesting"
	LimitMembers Limit = "members of one object"
	LimitNodes   Limit = "values"
	LimitSize    Limit = "bytes"
)

// LimitError says that the source may be JSON but exceeds a limit of Parse.
type LimitError struct {
	Offset int   // where the limit was exceeded
	Limit  Limit // which limit
	Max    int   // the limit's value
}

func (e *LimitError) Error() string {
	return "parse JSON: more than " + strconv.Itoa(e.Max) + " " + string(e.Limit) + " at byte " + strconv.Itoa(e.Offset)
}

// MemberProblem says what is wrong with a member.
type MemberProblem uint8

// The problems that Fields reports.
const (
	Duplicate   MemberProblem = iota + 1 // the name occurs twice, perhaps spelt with escapes
	CaseVariant                          // the name occurs in another case, as in "Model"
)

func (p MemberProblem) String() string {
	switch p {
	case Duplicate:
		return "given twice"
	case CaseVariant:
		return "spelt in another case"
	}
	return "invalid"
}

// MemberError says that two readers could understand a member of an object differently. Some
// readers take the first of two equal names, some take the last, and Go's own decoder ignores case.
type MemberError struct {
	Name    string // the name as the caller of Fields spells it, never the client's spelling
	Problem MemberProblem
	Offset  int // where the offending name starts
}

// Remedy returns the rest of a sentence that starts "The member is ". It says what is wrong and,
// for a wrong spelling, how to write the name.
func (e *MemberError) Remedy() string {
	if e.Problem == CaseVariant {
		return e.Problem.String() + ": spell it `" + e.Name + "`"
	}
	return e.Problem.String()
}

func (e *MemberError) Error() string {
	return "read JSON object: member " + strconv.Quote(e.Name) + " is " + e.Problem.String()
}
