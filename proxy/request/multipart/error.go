package multipart

// Error describes why a body is not a valid form. Reason is one of the constants below, and
// contains no text from the client.
type Error struct{ Reason string }

// Error implements error.
func (e *Error) Error() string { return "read multipart form: " + e.Reason }

func newError(reason string) error { return &Error{reason} }

// These are the possible reasons for an Error. Each reason completes a sentence that starts with
// "The form could not be read: ".
const (
	ReasonNotForm         = "the Content-Type must be multipart/form-data"
	ReasonNoBoundary      = "the Content-Type has no boundary"
	ReasonBadBoundary     = "the boundary in the Content-Type is malformed"
	ReasonNoDelimiter     = "the body does not begin with the boundary of the Content-Type"
	ReasonBadDelimiter    = "a boundary is followed by something else than a line end"
	ReasonTruncatedForm   = "the body ends before the last boundary"
	ReasonTrailingBytes   = "the body continues after the last boundary"
	ReasonTooManyParts    = "it has more than 32 parts"
	ReasonHeaderTooLarge  = "the head of a part is larger than 8 KiB"
	ReasonBadHeader       = "the head of a part is malformed"
	ReasonNoName          = "a part has no Content-Disposition: form-data with a name"
	ReasonBadName         = "the name of a part holds other characters than letters, digits and -_.[], or more than 64"
	ReasonTransferEncoded = "a part has a Content-Transfer-Encoding"
)
