package process

import "errors"

// ErrLocked reports that another process has the lock of a file.
var ErrLocked = errors.New("another process has locked the file")
