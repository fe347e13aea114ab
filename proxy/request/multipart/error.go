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
	NotForm         = "the Content-Type must be multipart/form-data"
	NoBoundary      = "the Content-Type has no boundary"
	BadBoundary     = "the boundary in the Content-Type is malformed"
	NoDelimiter     = "the body does not begin with the boundary of the Content-Type"
	BadDelimiter    = "a boundary is followed by something else than a line end"
	Truncated       = "the body ends before the last boundary"
	TrailingBytes   = "the body continues after the last boundary"
	TooManyParts    = "it has more than 32 parts"
	HeaderTooLarge  = "the head of a part is larger than 8 KiB"
	BadHeader       = "the head of a part is malformed"
	NoName          = "a part has no Content-Disposition: form-data with a name"
	BadName         = "the name of a part holds other characters than letters, digits and -_.[], or more than 64"
	TransferEncoded = "a part has a Content-Transfer-Encoding"
)
