package process

import "errors"

// ErrLocked means that another process has locked the file.
var ErrLocked = errors.New("another process has locked the file")
