package process

import "errors"

// ErrLocked reports that another process has locked the file.
var ErrLocked = errors.New("another process has locked the file")
